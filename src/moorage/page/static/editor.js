// The rules of a pod or a template as YAML: completed, checked and tried out while they are typed.
import { go } from "./address.js";
import { complete, wordsOf } from "./completion.js";
import { html, useEffect, useMemo, useRef, useState } from "./html.js";
import { Saving } from "./saving.js";
import { ask } from "./session.js";

const PAUSE = 300; // milliseconds without a key until what was typed is tried
const LINES = 12;

let vocabulary = null;
const learn = async () => { vocabulary ??= await (await ask("vocabulary")).json(); };

export function Editor({ subject, address, placement, cluster, decided, tryOut }) {
  const [written, load] = useState(null); // { text, target, consequence, obstacle }
  const [text, type] = useState(null);
  const [answer, tell] = useState({ errors: [], expressions: [] });
  const query = new URLSearchParams(subject).toString();
  const read = async () => {
    try {
      await learn();
      const found = await (await ask(`rules?${query}`)).json();
      if (found.problem) throw new Error(found.problem);
      load(found);
      return found;
    } catch (error) {
      tell({ errors: [{ line: 0, message: error.message }], expressions: [] });
      return null;
    }
  };
  useEffect(() => {
    read().then((found) => found && type(address.rules || found.text));
    return () => tryOut(null);
  }, []);
  const sent = useRef(""); // what this editor has put into the address
  useEffect(() => {
    if (text !== null && address.rules && address.rules !== sent.current) type(address.rules);
  }, [address.rules]);
  const anew = async () => {
    const found = await read();
    if (found) type(found.text);
  };
  const isChanged = written !== null && text !== written.text;
  useEffect(() => {
    if (text === null || !written) return undefined;
    let isWanted = true;
    const timer = setTimeout(async () => {
      sent.current = isChanged ? text : "";
      go({ rules: sent.current }, { replace: true });
      try {
        const found = await (await ask("try", { ...subject, rules: text })).json();
        if (found.problem) throw new Error(found.problem);
        if (!isWanted) return;
        tell(found);
        tryOut(found.errors.length || !isChanged ? null : { ...found, rules: text });
      } catch (error) {
        tell({ errors: [{ line: 0, message: error.message }], expressions: [] });
      }
    }, PAUSE);
    return () => { isWanted = false; clearTimeout(timer); };
  }, [text, written]);
  const retype = (changed) => {
    type(changed);
    if (address.panel === "save") go({ panel: "edit" }, { replace: true });
  };
  return html`<section class="editor"><h3>Rules ${isChanged && html`<span class="dim">changed, not saved</span>`}</h3>
    <${Code} text=${text} type=${retype} answer=${answer} decided=${decided} at=${address.at} placement=${placement} />
    <div role="status">${answer.errors.map((error, at) => html`<p key=${at} class="message">${error.line > 0 && html`<b>line ${error.line}: </b>`}<span class="caret">${error.message}</span></p>`)}</div>
    ${written && html`<${Saving} subject=${subject} text=${text} written=${written} isChanged=${isChanged} answer=${answer} address=${address} readOnly=${cluster.readOnly} saved=${anew} />`}
  </section>`;
}

// A text area with a layer under it, which marks parts of expressions; their type and cost stand below.
function Code({ text, type, answer, decided, at, placement }) {
  const area = useRef();
  const layer = useRef();
  const [list, open] = useState(null); // { from, items, chosen, top }
  const words = useMemo(() => wordsOf(placement.nodes.values()), [placement.places]);
  const suggest = (wanted) => {
    const box = area.current;
    const found = vocabulary && box.selectionStart === box.selectionEnd && complete(box.value, box.selectionStart, vocabulary, words);
    const worth = found && (wanted || box.selectionStart > found.from || /[:.'"[]\s?$/.test(box.value.slice(0, found.from)));
    open(worth ? { ...found, chosen: 0, top: under(box, found.from) } : null);
  };
  const accept = (item) => {
    const box = area.current;
    box.setRangeText(item.insert, list.from, box.selectionStart, "end");
    type(box.value);
    suggest(false);
    box.focus();
  };
  const keys = (event) => {
    if (event.key === " " && event.ctrlKey) { event.preventDefault(); suggest(true); return; }
    if (!list) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) open({ ...list, chosen: (list.chosen + step + list.items.length) % list.items.length });
    else if (event.key === "Enter" || event.key === "Tab") accept(list.items[list.chosen]);
    else if (event.key === "Escape") open(null);
    else return;
    event.preventDefault();
  };
  // Somebody who opens the editor types next, and needs no mouse for that.
  useEffect(() => {
    if (text !== null && !at && document.activeElement?.matches("body, a, aside")) area.current.focus({ preventScroll: true });
  }, [text === null]);
  useEffect(() => {
    const part = at && decided?.find((each) => each.path === at && each.start >= 0);
    if (!part || !area.current) return;
    area.current.focus();
    area.current.setSelectionRange(part.start + part.part[0], part.start + part.part[1]);
  }, [at, Boolean(decided), text === null]);
  useEffect(() => document.getElementById(`completion-${list?.chosen}`)?.scrollIntoView({ block: "nearest" }), [list?.chosen]);
  return html`<div class="code">
    <pre class="under" ref=${layer} aria-hidden="true">${text !== null && painted(text, answer, decided)}</pre>
    <textarea ref=${area} aria-label="Rules as YAML" spellcheck="false" wrap="off" rows=${LINES} value=${text ?? ""} disabled=${text === null}
      placeholder="tolerations:" aria-invalid=${answer.errors.length > 0} aria-autocomplete="list" aria-haspopup="listbox"
      aria-controls=${list ? "completions" : undefined} aria-activedescendant=${list ? `completion-${list.chosen}` : undefined}
      onInput=${(event) => { type(event.target.value); suggest(false); }} onKeyDown=${keys} onBlur=${() => open(null)} onClick=${() => open(null)}
      onScroll=${(event) => { Object.assign(layer.current, { scrollTop: event.target.scrollTop, scrollLeft: event.target.scrollLeft }); open(null); }}></textarea>
    ${list && html`<ul id="completions" role="listbox" aria-label="What can be typed here" style=${{ top: list.top }}>
      ${list.items.map((item, index) => html`<li key=${item.text} id=${`completion-${index}`} role="option" aria-selected=${index === list.chosen}
        onMouseDown=${(event) => { event.preventDefault(); accept(item); }}><b>${item.text}</b> <span class="dim">${item.about}</span></li>`)}</ul>`}
    <ul class="notes" aria-label="Expressions">${answer.expressions.filter((each) => each.type).map((each) => html`<li key=${each.path}>line ${each.line}: <b>${each.type}</b>, costs ${each.cost.toLocaleString("en")} of ${each.limit.toLocaleString("en")} units</li>`)}</ul>
    <p class="dim keys">Ctrl+Space shows what can be typed.</p>
  </div>`;
}

// Below the line in which the completed word begins.
const under = (box, from) => `calc(${box.value.slice(0, from).split("\n").length} * 1.5em + 10px - ${box.scrollTop}px)`;

// The text with the parts marked that decided or are wrong.
function painted(text, { expressions }, decided) {
  const marks = [];
  for (const each of decided || []) {
    if (each.start >= 0 && text.startsWith(each.source, each.start)) marks.push([each.start + each.part[0], each.start + each.part[1], each.matches ? "decided well" : "decided ill"]);
  }
  for (const each of expressions) {
    const column = /^ERROR: <input>:1:(\d+):/.exec(each.problem);
    if (column && each.start >= 0) {
      const wrong = each.start + Number(column[1]) - 1;
      marks.push([wrong, Math.min(wrong + 1, each.start + each.source.length + 1), "wrong"]);
    }
  }
  let offset = 0;
  return text.split("\n").map((line, at) => {
    const parts = marked(line, marks.map(([from, to, name]) => [from - offset, to - offset, name]));
    offset += line.length + 1;
    return html`<span key=${at}>${parts}${"\n"}</span>`;
  });
}

function marked(line, marks) {
  const inside = marks.filter(([from, to]) => from >= 0 && from <= line.length && to > from).sort((a, b) => a[0] - b[0]);
  const parts = [];
  let at = 0;
  for (const [from, to, name] of inside) {
    if (from < at) continue;
    parts.push(line.slice(at, from), html`<mark class=${name}>${line.slice(from, to) || " "}</mark>`);
    at = to;
  }
  return [...parts, line.slice(at)];
}
