// Calling: requests to the server that a page came from, the token they carry, and what an answer that is not
// a success means. Knows no page.

import { answerToken, askForToken } from "./token.js";

const TIMEOUT_MS = 30_000;
/** Where this tab keeps the token that a login gave it; it ends with the server's process. */
const TOKEN_KEY = "onceward.token";

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

/** The server of one application. */
export class Server {
  #configPath;
  #config = null;
  #token = null;
  /** Settled once the token of the address, if it had one, was exchanged for that of this page. */
  #entered = null;

  /** `configPath` is where it tells its settings. */
  constructor(configPath) {
    this.#configPath = configPath;
    this.#token = this.#savedToken();
    this.#enterByAddress();
    // The link may be opened in a tab that shows this page already, which loads nothing.
    addEventListener("hashchange", () => this.#enterByAddress());
  }

  /** Ask for the server's settings, and take over its token. */
  async loadConfig() {
    this.#config = await this.get(this.#configPath);
    this.#token = this.#config.token ?? this.#savedToken();
    return this.#config;
  }

  get(path, options = {}) {
    return this.#call("GET", path, options);
  }

  /** Send a body (an object, or text that is JSON already). A token that was refused is asked for once more. */
  async post(path, body, requestId = null) {
    if (this.#config === null) await this.loadConfig();
    if (this.#token === null) await this.renewToken();
    try {
      return await this.#call("POST", path, { body, requestId });
    } catch (error) {
      if (!(error instanceof Refused) || error.status !== 401) throw error;
      await this.renewToken();
      return this.#call("POST", path, { body, requestId });
    }
  }

  /** Return a text file. */
  async getText(path) {
    await this.#entered;
    const response = await reach(path, {});
    if (!response.ok) throw new Refused(response.status, await read(response), null);
    try {
      return await response.text();
    } catch {
      throw new Unreachable("the file broke off");
    }
  }

  /** The server may have been restarted, and its pages need another token; elsewhere a person types one. */
  async renewToken() {
    const refused = this.#token ?? this.#savedToken();
    const fresh = await this.loadConfig().catch((error) => {
      // Even the settings are told only to who has the token.
      if (error instanceof Refused && error.status === 401) return null;
      throw error;
    });
    if (fresh?.token) return;
    if (fresh === null || this.#token === refused) this.#token = null;
    if (this.#token === null) await this.#logIn(await askForToken());
  }

  /** Log in with the token of the address; where the person is asked for it, that is the answer. */
  #enterByAddress() {
    const linked = takeFromAddress();
    if (linked === null || answerToken(linked)) return;
    // A token that is refused changes nothing: the first change asks for another one.
    this.#entered = this.#logIn(linked).catch(() => null);
  }

  /** Exchange a token that a person has for one of this page, and for the cookie with which the page reads. */
  async #logIn(given) {
    const headers = { accept: "application/json", "X-CM-LAB-TOKEN": given };
    const response = await reach("/api/console/login", { method: "POST", headers });
    const answer = await read(response);
    if (!response.ok) throw new Refused(response.status, answer, null);
    this.#token = answer.token;
    this.#saveToken(this.#token);
  }

  async #call(method, path, { body = null, requestId = null, timeoutMs = TIMEOUT_MS }) {
    await this.#entered;
    const headers = { accept: "application/json" };
    // Reading needs no token, and an open page goes on reading when another server has the port.
    if (this.#token !== null && method !== "GET") headers["X-CM-LAB-TOKEN"] = this.#token;
    if (requestId !== null) headers["X-CM-LAB-REQUEST-ID"] = requestId;
    if (body !== null) headers["content-type"] = "application/json";
    const payload = body === null || typeof body === "string" ? body : JSON.stringify(body);
    const response = await reach(path, { method, headers, body: payload }, timeoutMs);
    const answer = await read(response);
    if (!response.ok) throw new Refused(response.status, answer, response.headers.get("retry-after"));
    return answer;
  }

  #savedToken() {
    try {
      return sessionStorage.getItem(TOKEN_KEY);
    } catch {
      return this.#token;
    }
  }

  #saveToken(value) {
    try {
      sessionStorage.setItem(TOKEN_KEY, value);
    } catch {
      // Kept in memory until the page closes; it will be asked for again.
    }
  }
}

/** Take the token out of the link that logs in, so that neither the history nor a bookmark keeps it. */
function takeFromAddress() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const token = parts.get("token");
  if (token === null) return null;
  parts.delete("token");
  const rest = parts.toString();
  history.replaceState(history.state, "", location.pathname + location.search + (rest && `#${rest}`));
  return token.trim();
}

async function reach(path, options, timeoutMs = TIMEOUT_MS) {
  try {
    return await fetch(path, { ...options, cache: "no-store", signal: AbortSignal.timeout(timeoutMs) });
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

/** Return the status of an address, or 0 when nobody answers. */
export async function peek(path) {
  try {
    return (await reach(path, { method: "HEAD" })).status;
  } catch {
    return 0;
  }
}
