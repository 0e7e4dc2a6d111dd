// Api: requests to the Lab's server, the token they carry, and what an answer that is not a success
// means. Knows no page; submissions that must arrive exactly once are submission.js's.

import { askForToken } from "./token.js";

const TIMEOUT_MS = 30_000;
const TOKEN_KEY = "onceward.lab.token";
let config = null;
let token = null;

/** The server answered, and the answer is no. */
export class Refused extends Error {
  constructor(status, body, retryAfter) {
    const error = body?.error ?? {};
    super(error.message ?? `the server answered ${status}`);
    this.status = status;
    this.code = error.code ?? "UNKNOWN";
    this.context = error.context ?? {};
    this.fix = this.context.fix ?? null;
    this.field = typeof this.context.field === "string" ? this.context.field : null;
    this.retryAfterMs = Number(retryAfter) > 0 ? Number(retryAfter) * 1000 : 0;
  }

  /** Whether the same request may still succeed, with the same id. */
  get isPassing() {
    return this.status >= 500 || this.status === 429 || (this.status === 409 && this.code === "IN_FLIGHT");
  }
}

/** No answer came: the server is gone, or does not answer in time. */
export class Unreachable extends Error {}

/** Ask for the server's settings, and take over its token. */
export async function loadConfig() {
  config = await get("/api/config");
  token = config.token ?? savedToken();
  return config;
}

export function get(path) {
  return call("GET", path);
}

/** Send a body (an object, or text that is JSON already). A token that was refused is asked for once more. */
export async function post(path, body, requestId = null) {
  if (config === null) await loadConfig();
  if (token === null) await renewToken();
  try {
    return await call("POST", path, body, requestId);
  } catch (error) {
    if (!(error instanceof Refused) || error.status !== 401) throw error;
    await renewToken();
    return call("POST", path, body, requestId);
  }
}

/** The server may have been started anew, with another token; elsewhere a person has to type it. */
async function renewToken() {
  const refused = token ?? savedToken();
  const fresh = await loadConfig().catch((error) => {
    // Even the settings are told only to who has the token.
    if (error instanceof Refused && error.status === 401) return null;
    throw error;
  });
  if (fresh?.token) return;
  if (fresh === null || token === refused) token = null;
  token ??= await askForToken();
  saveToken(token);
}

async function call(method, path, body = null, requestId = null) {
  const headers = { accept: "application/json" };
  if (token !== null) headers["X-CM-LAB-TOKEN"] = token;
  if (requestId !== null) headers["X-CM-LAB-REQUEST-ID"] = requestId;
  if (body !== null) headers["content-type"] = "application/json";
  const payload = body === null || typeof body === "string" ? body : JSON.stringify(body);
  const response = await reach(path, { method, headers, body: payload });
  const answer = await read(response);
  if (!response.ok) throw new Refused(response.status, answer, response.headers.get("retry-after"));
  return answer;
}

async function reach(path, options) {
  try {
    return await fetch(path, { ...options, cache: "no-store", signal: AbortSignal.timeout(TIMEOUT_MS) });
  } catch (error) {
    throw new Unreachable(error.name === "TimeoutError" ? "it does not answer" : "it cannot be reached");
  }
}

/** An answer that breaks off in the middle is no answer; one that is not JSON has no details. */
async function read(response) {
  let text;
  try {
    text = await response.text();
  } catch {
    throw new Unreachable("its answer broke off");
  }
  try {
    return JSON.parse(text);
  } catch {
    if (response.ok) throw new Unreachable("its answer was not complete");
    return null;
  }
}

/** Return a text file of a run. */
export async function getText(path) {
  const headers = token === null ? {} : { "X-CM-LAB-TOKEN": token };
  const response = await reach(path, { headers });
  if (!response.ok) throw new Refused(response.status, await read(response), null);
  try {
    return await response.text();
  } catch {
    throw new Unreachable("the file broke off");
  }
}

/** Return the status of an address, or 0 when nobody answers. */
export async function peek(path) {
  try {
    return (await reach(path, { method: "HEAD" })).status;
  } catch {
    return 0;
  }
}

function savedToken() {
  try {
    return sessionStorage.getItem(TOKEN_KEY);
  } catch {
    return token;
  }
}

function saveToken(value) {
  try {
    sessionStorage.setItem(TOKEN_KEY, value);
  } catch {
    // Kept in memory until the page closes; it will be asked for again.
  }
}

export function runPath(runId) {
  return `/api/runs/${encodeURIComponent(runId)}`;
}

export function artifactPath(runId, name) {
  return `${runPath(runId)}/artifact/${name.split("/").map(encodeURIComponent).join("/")}`;
}

export function experimentPath(experimentId) {
  return `/api/experiments/${encodeURIComponent(experimentId)}`;
}
