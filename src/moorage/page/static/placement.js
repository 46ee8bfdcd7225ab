// What runs where: the server's aggregate, kept up to date by its events.
import { ask, Closed, events } from "./session.js";

const RETRY = [500, 1000, 2000, 5000];
const STREAMS = 3; // how many tabs are sent changes as they happen
const ASK_AGAIN = 1000; // milliseconds after which the other tabs ask what has changed
const SAMPLE = 5; // seconds for which one number of pods that wait stands
const KEPT = 3600;
export const HAPPENINGS = 5000; // as many as the server keeps

class Refused extends Error {} // the cluster cannot be read: no rights, or no answer

const podOf = ([key, node, owner, state, priority, created, reason, evictAt]) =>
  ({ key, node, owner, state, priority, created, reason, evictAt });

const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

// A browser has six connections to a server for all of its tabs together, and a stream keeps one: only a few tabs have
// one each, for as long as they are open.
async function seat() {
  if (!navigator.locks) return true;
  for (let number = 0; number < STREAMS; number++) {
    const isFree = await new Promise((answer) => {
      navigator.locks.request(`moorage-stream-${number}`, { ifAvailable: true }, (lock) => {
        answer(Boolean(lock));
        return lock && new Promise(() => {});
      });
    });
    if (isFree) return true;
  }
  return false;
}

// Note how many pods wait: an hour of it, and one number for a few seconds. A clock that was turned back begins anew there.
export function sample(pending, now, number) {
  while (pending.length && pending.at(-1)[0] > now) pending.pop();
  const last = pending.at(-1);
  if (last && now - last[0] < SAMPLE) last[1] = number;
  else pending.push([now, number]);
  while (pending.length > 1 && pending[1][0] < now - KEPT) pending.shift();
}

export class Placement extends EventTarget {
  nodes = new Map();
  pods = new Map();
  onNode = new Map(); // the pods of each node; those without one under ""
  doomed = new Set(); // the pods that will be evicted
  happened = [];
  counts = {}; // how often each kind of thing has happened
  pending = []; // [seconds, number of pods that wait]
  moved = new Map(); // where the pods that changed nodes in the last change came from
  revision = 0;
  places = 0; // changes when a node comes or goes, or when its labels or taints change
  state = "connecting"; // connecting, live, lost, stale, forbidden, closed
  problem = "";
  epoch = ""; // empty until the cluster is known
  #after = "";
  #isSeated = false;

  async follow() {
    for (let failures = 0; ; ) {
      try {
        if (!this.#after) {
          const whole = await (await ask("placement")).json();
          if (whole.problem) throw new Refused(whole.problem, { cause: whole.state });
          this.#load(whole);
        }
        this.#isSeated ||= await seat();
        for await (const event of events(`changes?after=${this.#after}${this.#isSeated ? "" : "&once=1"}`)) {
          failures = 0;
          if (event.type === "reset") this.#after = "";
          else if (event.type === "reach") this.#be(JSON.parse(event.data).problem ? "stale" : "live", JSON.parse(event.data).problem);
          else this.#change(JSON.parse(event.data));
        }
        if (this.#isSeated && this.#after) throw new Error("the server has closed the connection");
        if (this.#after) await pause(ASK_AGAIN);
      } catch (error) {
        if (error instanceof Closed) return this.#be("closed", error.message);
        this.#be(error instanceof Refused ? error.cause : "lost", error.message);
        await pause(RETRY[Math.min(failures++, RETRY.length - 1)]);
      }
    }
  }

  podsOn(node) {
    return this.onNode.get(node) || new Set();
  }

  #be(state, problem = "") {
    if (this.state === state && this.problem === problem) return;
    Object.assign(this, { state, problem });
    this.dispatchEvent(new Event("change"));
  }

  #load(whole) {
    this.epoch = whole.epoch;
    this.places++;
    this.nodes = new Map(whole.nodes.map((node) => [node.name, node]));
    this.pods = new Map();
    this.onNode = new Map();
    this.moved = new Map();
    this.doomed = new Set();
    for (const row of whole.pods) this.#put(podOf(row));
    this.happened = [];
    this.counts = {};
    this.#happen(whole.happened);
    this.pending = whole.pending;
    this.#reached(whole.revision);
  }

  #change(delta) {
    this.moved = new Map();
    if (delta.nodes.length || delta.gone_nodes.length) this.places++;
    for (const node of delta.nodes) this.nodes.set(node.name, node);
    for (const [name, usage] of Object.entries(delta.usage)) {
      const node = this.nodes.get(name);
      if (node) this.nodes.set(name, { ...node, usage });
    }
    for (const name of delta.gone_nodes) this.nodes.delete(name);
    for (const row of delta.pods) this.#put(podOf(row));
    for (const key of delta.gone_pods) this.#drop(key);
    this.#happen(delta.happened);
    sample(this.pending, Date.now() / 1000, this.unplaced.length);
    this.#reached(delta.revision);
  }

  get unplaced() {
    return [...this.podsOn("")].map((key) => this.pods.get(key)).filter((pod) => pod.state === "Unscheduled");
  }

  #happen(news) {
    const last = this.happened.length ? this.happened[this.happened.length - 1].number : 0;
    for (const happening of news) {
      if (happening.number <= last) continue;
      this.happened.push(happening);
      this.counts[happening.kind] = (this.counts[happening.kind] || 0) + 1;
    }
    for (const old of this.happened.splice(0, this.happened.length - HAPPENINGS)) this.counts[old.kind]--;
  }

  #reached(revision) {
    this.revision = revision;
    this.#after = `${this.epoch}.${revision}`;
    this.dispatchEvent(new Event("change"));
  }

  #put(pod) {
    const old = this.pods.get(pod.key);
    if (old && old.node !== pod.node) {
      this.onNode.get(old.node)?.delete(pod.key);
      this.moved.set(pod.key, old.node);
    }
    this.pods.set(pod.key, pod);
    if (pod.evictAt && pod.state !== "Terminating") this.doomed.add(pod.key);
    else this.doomed.delete(pod.key);
    if (!this.onNode.has(pod.node)) this.onNode.set(pod.node, new Set());
    this.onNode.get(pod.node).add(pod.key);
  }

  #drop(key) {
    const old = this.pods.get(key);
    if (!old) return;
    this.onNode.get(old.node)?.delete(key);
    this.pods.delete(key);
    this.doomed.delete(key);
  }
}
