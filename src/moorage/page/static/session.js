// Who this page is to the server: a secret that it got for the token in its address, sent with every request.
const KEY = "moorage-page";

export class Closed extends Error {}

export async function open() {
  const given = new URLSearchParams(location.hash.slice(1));
  const token = given.get("token");
  if (token) {
    // A browser that guesses where somebody is going may run the page before anybody sees it.
    if (document.prerendering) await new Promise((seen) => document.addEventListener("prerenderingchange", seen, { once: true }));
    given.delete("token"); // the rest is what to show
    history.replaceState(null, "", given.size ? `#${given}` : location.pathname);
    const answer = await fetch("ui/v1/session", { method: "POST", body: JSON.stringify({ token }) });
    if (answer.ok) sessionStorage.setItem(KEY, (await answer.json()).secret);
    else if (!sessionStorage.getItem(KEY)) throw new Closed((await answer.json()).message);
  }
  if (!sessionStorage.getItem(KEY)) {
    throw new Closed("Open this page with the address that moorage printed; it holds a token. `moorage ui --url` prints a new one: open it, or enter it here to see what this address shows.");
  }
}

// Open what this address shows with a token that somebody types, alone or in the address that holds it.
export function reopen(typed) {
  const given = new URLSearchParams(location.hash.slice(1));
  given.set("token", typed.trim().split("token=").pop());
  history.replaceState(null, "", `#${given}`);
  location.reload();
}

export async function ask(path, body, signal) {
  const options = { headers: { "x-moorage-page": sessionStorage.getItem(KEY) || "" }, signal };
  if (body !== undefined) Object.assign(options, { method: "POST", body: JSON.stringify(body) });
  const answer = await fetch(`ui/v1/${path}`, options);
  if (answer.status === 401) {
    sessionStorage.removeItem(KEY);
    throw new Closed((await answer.json()).message);
  }
  if (!answer.ok) throw new Error((await answer.json().catch(() => ({}))).message || `the server answered ${answer.status}`);
  return answer;
}

// Server-sent events by fetch: EventSource cannot send a header.
export async function* events(path, signal) {
  const answer = await ask(path, undefined, signal);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const event = { type: "message", data: "" };
      for (const line of part.split("\n")) {
        if (line.startsWith("event: ")) event.type = line.slice(7);
        else if (line.startsWith("data: ")) event.data += line.slice(6);
      }
      if (event.data) yield event;
    }
  }
}
