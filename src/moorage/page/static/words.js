// Numbers with their units, times, and names that fit.
const STEPS = [["Ei", 2 ** 60], ["Pi", 2 ** 50], ["Ti", 2 ** 40], ["Gi", 2 ** 30], ["Mi", 2 ** 20], ["Ki", 2 ** 10]];
// So much of so much, in one unit: that of the whole.
const short = (number) => (Number.isInteger(number) || number >= 100 ? Math.round(number) : number < 10 ? Number(number.toFixed(2)) : Number(number.toFixed(1)));
export const cpuOf = (used, most) => `${short(used / 1000)} of ${short(most / 1000)}\u00a0CPU`;
export function bytesOf(used, most) {
  const [unit, size] = STEPS.find(([, step]) => Math.max(used, most) >= step) || ["B", 1];
  return `${short(used / size)} of ${short(most / size)}\u00a0${unit}`;
}
export const count = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

export function span(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min${whole % 60 && whole < 600 ? ` ${whole % 60} s` : ""}`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86400)} d`;
}
// A pod without a node is Pending to Kubernetes, and so is one whose containers are being started.
const STATES = { Unscheduled: "pending", Pending: "starting" };
export const stateOf = ({ state }) => STATES[state] || state.toLowerCase();
export const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString("en-GB");

// The end of a name tells pods and nodes apart, so it is cut in the middle.
export function cut(name, most) {
  if (name.length <= most) return name;
  const tail = Math.floor((most - 1) * 0.6);
  return `${name.slice(0, most - 1 - tail)}…${name.slice(-tail)}`;
}
export const byOwner = (a, b) => (a.owner < b.owner ? -1 : a.owner > b.owner ? 1 : a.key < b.key ? -1 : 1);
export const inOrder = new Intl.Collator("en", { numeric: true }).compare;
export const nameOf = (key) => key.slice(key.indexOf("/") + 1);
export const namespaceOf = (key) => key.slice(0, key.indexOf("/"));
