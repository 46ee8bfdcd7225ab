// What can be typed next in rules: fields, operators, and the taints, labels, functions and variables that exist.
const SHOWN = 40;
const unique = (texts) => [...new Set(texts)].sort();

// The words of the cluster: its labels and taints.
export function wordsOf(nodes) {
  const labels = new Map();
  const taints = new Map();
  const note = (map, key, value) => (map.has(key) ? map.get(key) : map.set(key, new Set()).get(key)).add(value);
  for (const node of nodes) {
    for (const [key, value] of Object.entries(node.labels)) note(labels, key, value);
    for (const taint of node.taints) {
      const [, key, value = ""] = /^([^=:]*)=?([^:]*)/.exec(taint);
      note(taints, key, value);
    }
  }
  return { labels, taints };
}

// { from, items: [{ text, insert, about }] } for a caret in a text; null when nothing fits.
export function complete(text, caret, vocabulary, words) {
  const start = text.lastIndexOf("\n", caret - 1) + 1;
  const line = text.slice(start, caret);
  const place = placeOf(text, start, line);
  const found = expressionAt(place, line) || valueAt(place, line) || fieldAt(place, line);
  if (!found) return null;
  const items = found.items(vocabulary, words, place)
    .filter((item) => item.text.toLowerCase().startsWith(found.typed.toLowerCase()) && item.insert !== found.typed);
  return items.length ? { from: caret - found.typed.length, items: items.slice(0, SHOWN) } : null;
}

// Where a line begins: the column of its dash, if it has one, and that of its text.
function columns(line) {
  const [, space, dash] = /^(\s*)(-\s*)?/.exec(line);
  return { dash: dash ? space.length : -1, column: space.length + (dash || "").length };
}

// The fields around the end of a line from the outside in, and the fields beside it.
function placeOf(text, start, line) {
  const path = [];
  const beside = {};
  const own = columns(line);
  let isItem = own.dash >= 0;
  let left = isItem ? own.dash : own.column;
  for (const above of text.slice(0, start).split("\n").reverse()) {
    const [, key, value] = /^[\s-]*([\w./-]+):\s*["']?(.*?)["']?\s*$/.exec(above) || [];
    if (!key) continue;
    const { dash, column } = columns(above);
    if (!isItem && column === left) {
      if (!path.length) beside[key] ??= value;
      if (dash >= 0) [isItem, left] = [true, dash];
    } else if (column < left || (isItem && column === left)) {
      path.unshift(key);
      [isItem, left] = dash >= 0 ? [true, dash] : [false, column];
    }
  }
  for (const [, key, value] of line.matchAll(/[{,]\s*(\w+):\s*["']?([^,"'}]*)["']?(?=,)/g)) beside[key] = value;
  return { path: [...path, ...opened(line)], beside };
}

// The fields whose brackets are open at the end of a line.
function opened(line) {
  const open = [];
  for (const [, key, bracket] of line.matchAll(/(?:(\w+):\s*)?([[\]{}])/g)) {
    if ("]}".includes(bracket)) open.pop();
    else open.push(key);
  }
  return open.filter(Boolean);
}

const typeAt = (vocabulary, path) => path.reduce((type, name) => (type === undefined ? undefined : vocabulary.fields[type]?.[name] || undefined), "");
const plain = (texts, about) => unique(texts).filter(Boolean).map((text) => ({ text, insert: quoted(text), about }));
// A text that YAML would take for a number, a boolean or nothing must be quoted.
const quoted = (text) => (/^(-?[\d.]+|true|false|null|yes|no|on|off|~)?$/i.test(text) || /^[*&!%@`{[]|: |\s$/.test(text) ? `"${text}"` : text);

// The words inside of an expression: after a dot fields and methods, in brackets and quotes labels, elsewhere functions.
function expressionAt(place, line) {
  const opened = /(?:^|[\s{,-])(expression):\s*(?:["'])?(.*)$/.exec(line);
  const listed = place.path.at(-1) === "matchCELExpressions" && /^\s*-\s*["']?(.*)$/.exec(line);
  const source = opened ? opened[2] : listed ? listed[1] : null;
  if (source === null || source === false) return null;
  const env = opened ? "taint" : "node";
  const label = /(?:labels\s*\[\s*|\bin\s+node\.labels.*|)(["'])([^"']*)$/.exec(source);
  const quotes = (source.match(/'/g) || []).length % 2 || (source.match(/"/g) || []).length % 2;
  if (quotes && label) return { typed: label[2], items: (_, words) => texts(env, source, words) };
  const member = /([\w.\])']+)\.(\w*)$/.exec(source);
  if (member) return { typed: member[2], items: (vocabulary) => members(vocabulary.expressions[env], member[1]) };
  const typed = /\w*$/.exec(source)[0];
  return { typed, items: (vocabulary) => globals(vocabulary.expressions[env]) };
}

function texts(env, source, words) {
  const as = (values, about) => unique(values).filter(Boolean).map((text) => ({ text, insert: text, about }));
  if (/taint\.value\s*[=!]=\s*["'][^"']*$/.test(source)) return as([...words.taints.values()].flatMap((each) => [...each]), "value of a taint");
  if (/taint\.effect\s*[=!]=\s*["'][^"']*$/.test(source)) return as(["NoSchedule", "NoExecute", "PreferNoSchedule"], "effect");
  if (env === "taint") return as(words.taints.keys(), "key of a taint");
  const of = /labels\[\s*["']([^"']+)["']\s*\]\s*[=!]=\s*["'][^"']*$/.exec(source);
  return of ? as(words.labels.get(of[1]) || [], `value of ${of[1]}`) : as(words.labels.keys(), "label");
}

// The type of what stands before a dot, as far as that is seen without checking the expression.
function typeOf(owner, variables) {
  const [, variable, field] = /(\w+)\.(\w+)$/.exec(owner) || [];
  if (variables[variable]?.[field]) return variables[variable][field].split("(")[0];
  return /labels\[[^\]]*\]$|'$/.test(owner) ? "string" : "";
}

function members({ variables, functions, methods, receivers }, owner) {
  const type = typeOf(owner, variables);
  const fields = Object.entries(variables[owner] || {}).map(([text, about]) => ({ text, insert: text, about }));
  const own = Object.entries(functions).filter(([name]) => name.startsWith(`${owner}.`)).map(([name, about]) => ({ text: name.slice(owner.length + 1), insert: `${name.slice(owner.length + 1)}(`, about }));
  const called = Object.entries(methods).filter(([name]) => !type || receivers[name].includes(type)).map(([text, about]) => ({ text, insert: `${text}(`, about }));
  return [...fields, ...own, ...(variables[owner] || own.length ? [] : called)];
}

function globals({ variables, functions }) {
  return [
    ...Object.keys(variables).map((text) => ({ text, insert: text, about: "variable" })),
    ...Object.entries(functions).map(([text, about]) => ({ text, insert: `${text}(`, about })),
  ];
}

// The value of a field.
function valueAt(place, line) {
  const inside = /(?:^|[\s{,-])([\w./-]+):\s+["']?([^\s"',{}[\]]*)$/.exec(line);
  const listed = /^\s*-\s+["']?([^\s:"'{}]*)$/.exec(line);
  const inList = /(?:^|[\s{,-])(values|matchLabelKeys):\s*\[(?:[^\]]*,\s*)?["']?([^\s,"'\]]*)$/.exec(line);
  if (inList) return { typed: inList[2], items: (vocabulary, words, at) => values(inList[1], vocabulary, words, at) };
  if (inside) return { typed: inside[2], items: (vocabulary, words, at) => values(inside[1], vocabulary, words, at) };
  if (listed && place.path.at(-1) === "values") return { typed: listed[1], items: (vocabulary, words, at) => values("values", vocabulary, words, at) };
  return null;
}

function values(field, vocabulary, words, { path, beside }) {
  const inTolerations = path[0] === "tolerations";
  if (field === "key") return inTolerations ? plain(words.taints.keys(), "key of a taint") : plain(words.labels.keys(), "label of a node");
  if (field === "topologyKey") return plain(words.labels.keys(), "label of a node");
  if (field === "value") return plain(words.taints.get(beside.key) || [...words.taints.values()].flatMap((each) => [...each]), "value of a taint");
  if (field === "values") return plain(words.labels.get(beside.key) || [], `value of ${beside.key || "a label"}`);
  if (path.at(-1) === "nodeSelector") return plain(words.labels.get(field) || [], `value of ${field}`);
  const type = typeAt(vocabulary, [...path, field]);
  return (vocabulary.values[type] || []).map((text) => ({ text, insert: text, about: field }));
}

// The name of a field.
function fieldAt(place, line) {
  const typed = /(?:^[\s-]*|[{,]\s*)([\w./-]*)$/.exec(line)?.[1];
  if (typed === undefined) return null;
  return {
    typed,
    items: (vocabulary, words, { path }) => {
      if (path.at(-1) === "nodeSelector") return unique(words.labels.keys()).map((text) => ({ text, insert: `${text}: `, about: "label of a node" }));
      const type = typeAt(vocabulary, path);
      return Object.entries(vocabulary.fields[type] || {}).filter(() => type !== undefined).map(([text, of]) => ({ text, insert: `${text}:${vocabulary.fields[of] || (!of && /s$/.test(text)) ? "" : " "}`, about: "field" }));
    },
  };
}
