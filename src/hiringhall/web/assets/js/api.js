// The HTTP API. A failed request is a `Problem`, whose text a person can read.

const BASE = "/api/v1";
const EMPTY_PAGES_MAX = 50;

export class Problem extends Error {
  constructor(status, code, title, detail) {
    super(detail || title);
    this.status = status;
    this.code = code;
  }

  /** The hall or the web process is away: this passes by itself. */
  get passing() {
    return this.status === 0 || this.status === 502 || this.status === 503 || this.status === 504;
  }
}

async function problemOf(response) {
  let body = {};
  try {
    body = await response.json();
  } catch {
    // Not a problem document: the status has to do.
  }
  return new Problem(response.status, body.code ?? "", body.title ?? `The server answered ${response.status}`, body.detail);
}

/** A value of a query that is percent-encoded already: a name need not be UTF-8. */
export class Encoded {
  constructor(text) {
    this.text = text;
  }
}

/** The value of a parameter of an address, as `Encoded`; null if it is not there. */
export function encodedParameter(search, name) {
  const found = new RegExp(`[?&]${name}=([^&]+)`).exec(search);
  return found ? new Encoded(found[1]) : null;
}

/** A query string; without what is empty. */
export function query(parameters) {
  const parts = [];
  for (const [name, value] of Object.entries(parameters ?? {})) {
    if (value === null || value === undefined || value === "") continue;
    parts.push(`${name}=${value instanceof Encoded ? value.text : encodeURIComponent(String(value))}`);
  }
  return parts.length ? `?${parts.join("&")}` : "";
}

async function request(path, options) {
  let response;
  try {
    response = await fetch(BASE + path, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "unreachable", "The web process does not answer", "The web process does not answer. It is tried again.");
  }
  if (response.ok) return response;
  if (response.status === 401 && location.pathname !== "/login") {
    location.assign(`/login?next=${encodeURIComponent(location.pathname + location.search)}`);
  }
  throw await problemOf(response);
}

export async function get(path, parameters, signal) {
  return (await request(path + query(parameters), { signal })).json();
}

/** A page of a list; not an empty one, as long as there are more: a search that takes long answers bit by bit. */
export async function getPage(path, parameters, signal) {
  let page = await get(path, parameters, signal);
  for (let turn = 0; !page.items.length && page.next && turn < EMPTY_PAGES_MAX; turn += 1) {
    page = await get(path, { ...parameters, cursor: page.next }, signal);
  }
  return page;
}

export async function getBytes(path, signal) {
  return new Uint8Array(await (await request(path, { signal })).arrayBuffer());
}

export async function send(method, path, body) {
  const headers = { "X-Requested-By": "dashboard" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const response = await request(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  const text = await response.text();
  return text ? JSON.parse(text) : null;
}

export function post(path, body) {
  return send("POST", path, body);
}

export function address(path, parameters) {
  return BASE + path + query(parameters);
}
