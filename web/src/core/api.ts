// Api: requests to the server this page came from, the token they carry, the keys that make an action
// happen once, and what an answer that is not a success means. Knows no screen.

import { signal, type Signal } from "@preact/signals";
import type { Schemas } from "../api/types";
import { learnTime } from "./clock";

export type Config = Schemas["ConsoleConfig"];

export type Params = Record<string, string | number | boolean | null | undefined>;

/** The server said no, or (status 0) nothing at all. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly fix: string | null;
  readonly context: Record<string, unknown>;
  /** What the person did or asked for when it went wrong. */
  readonly request: string;
  /** How long the server asks to be left alone. */
  readonly retryAfterMs: number;
  readonly at = new Date().toISOString();

  constructor(status: number, code: string, message: string, context: Record<string, unknown> = {}, request = "", retryAfterMs = 0) {
    super(message);
    this.status = status;
    this.code = code;
    this.context = context;
    this.fix = typeof context["fix"] === "string" ? context["fix"] : null;
    this.request = request;
    this.retryAfterMs = retryAfterMs;
  }

  /** Whether the same request may succeed later. */
  get isPassing(): boolean {
    return this.status === 0 || this.status === 429 || this.status === 503 || this.code === "IN_FLIGHT";
  }
}

export const config: Signal<Config | null> = signal(null);
/** Grows with every action that was done here, so that what is shown is asked for again. */
export const acted: Signal<number> = signal(0);
/** When the server last sent data, by the page's own clock. */
export const heardAt: Signal<number | null> = signal(null);
/** Set while a person is asked for the token. */
export const tokenWanted: Signal<{ give: (token: string | null) => void } | null> = signal(null);

const TIMEOUT_MS = 30_000;
/** Where the server tells its settings. */
let settingsPath = "/api/console/config";
const RETRY_DELAYS_MS = [400, 1_200, 3_000];
const TOKEN_KEY = "onceward.token";
let pageToken: string | null = readKept();
/** Settled once the token of the address, if it had one, was exchanged for that of this page. */
let entered: Promise<void> = Promise.resolve();
let asking: Promise<string | null> | null = null;
/** Who did not give a token is asked again when they do something, and not before. */
let isDeclined = false;
enterByAddress();
// The link may be opened in a tab that shows this page already, which loads nothing.
addEventListener("hashchange", enterByAddress);

/** Read. A server that other machines can reach may want its token for that, too. */
export async function get<T>(path: string, params?: Params, signal?: AbortSignal, timeoutMs?: number): Promise<T> {
  const address = withParams(path, params);
  const used = token();
  try {
    return await call<T>("GET", address, { signal, timeoutMs });
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 401 || isDeclined) throw error;
    // The token may have been entered while this request was in flight.
    if (token() === used) await askForToken();
    return call<T>("GET", address, { signal, timeoutMs });
  }
}

/** Ask something that changes nothing but needs a body: dry runs, inspectors. */
export async function post<T>(path: string, body: object): Promise<T> {
  return withToken(() => call<T>("POST", path, { body }));
}

/** Do something, once: every attempt of this call carries the same key. */
export async function act<T>(path: string, body: object, opts: { key?: string } = {}): Promise<T> {
  const key = opts.key ?? freshKey();
  for (let attempt = 0; ; attempt += 1) {
    try {
      const result = await withToken(() => call<T>("POST", path, { body, key }));
      acted.value += 1;
      return result;
    } catch (error) {
      const delay = RETRY_DELAYS_MS[attempt];
      if (!(error instanceof ApiError) || !error.isPassing || delay === undefined) throw error;
      await new Promise((resolve) => setTimeout(resolve, delay));
    }
  }
}

/** Send a body as it is, in one attempt, with further headers. */
export async function sendOnce<T>(path: string, text: string, headers: Record<string, string>): Promise<T> {
  return withToken(() => call<T>("POST", path, { text, headers }));
}

/** Return a text file of the server. */
export async function getText(path: string): Promise<string> {
  await entered;
  const request = `GET ${path}`;
  const response = await reach(path, {}, request);
  if (!response.ok) throw refusal(response, await read(response, request), request);
  try {
    return await response.text();
  } catch {
    throw unreachable("The server's answer broke off", request);
  }
}

/** Return the status with which the server answers at an address. */
export async function peek(path: string): Promise<number> {
  return (await reach(path, { method: "HEAD" }, `HEAD ${path}`)).status;
}

/** Take the settings from another address: a page of one application runs where no console is. */
export function takeSettingsFrom(path: string): void {
  settingsPath = path;
}

/** Ask for the server's settings; its type is that of the address they are taken from. */
export async function loadConfig<T extends Pick<Config, "token"> & Partial<Pick<Config, "as_of">> = Config>(): Promise<T> {
  const askedAt = Date.now();
  const fresh = await get<T>(settingsPath);
  learnTime(fresh.as_of, askedAt);
  config.value = fresh as unknown as Config;
  return fresh;
}

export function freshKey(): string {
  // randomUUID needs a secure context, which another machine's address is not.
  if (typeof crypto.randomUUID === "function") return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Turn whatever was thrown into something that can be shown. */
export function asApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new ApiError(0, "PAGE", message, { fix: "reload the page" });
}

/** A token that was refused is asked for once more: it ends when the server is restarted. */
async function withToken<T>(send: () => Promise<T>): Promise<T> {
  if (config.value === null) await loadConfig();
  if (token() === null) await askForToken();
  try {
    return await send();
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 401) throw error;
    const refused = token();
    await loadConfig().catch((problem: unknown) => {
      if (!(problem instanceof ApiError) || problem.status !== 401) throw problem;
    });
    if (token() === refused) await askForToken();
    return send();
  }
}

function token(): string | null {
  return config.value?.token ?? pageToken;
}

/** The person retries: a request that needs the token may ask for it again. */
export function askAgain(): void {
  isDeclined = false;
}

/** Ask the person once, however many requests wait for the answer. */
async function askForToken(): Promise<void> {
  asking ??= new Promise<string | null>((give) => {
    tokenWanted.value = { give };
  }).finally(() => {
    tokenWanted.value = null;
    asking = null;
  });
  const given = await asking;
  isDeclined = given === null;
  if (given === null) {
    throw new ApiError(401, "UNAUTHORIZED", "this server needs its token, and nothing was sent without it", {
      fix: "try again, and paste the token that the server printed when it started",
    });
  }
  await logIn(given);
}

/** Exchange a token that a person has for one of this page, and for the cookie with which the page reads. */
async function logIn(given: string): Promise<void> {
  const headers = { accept: "application/json", authorization: `Bearer ${given}` };
  const request = "POST /api/console/login";
  const response = await reach("/api/console/login", { method: "POST", headers }, request);
  const answer = await read(response, request);
  if (!response.ok) throw refusal(response, answer, request);
  pageToken = (answer as { token: string }).token;
  try {
    sessionStorage.setItem(TOKEN_KEY, pageToken);
  } catch {
    // Kept until the page closes.
  }
}

/** Log in with the token of the address; where the person is asked for it, that is the answer. */
function enterByAddress(): void {
  const linked = takeFromAddress();
  if (linked === null) return;
  isDeclined = false;
  if (tokenWanted.value) tokenWanted.value.give(linked);
  // A token that is refused changes nothing: the first change asks for another one.
  else entered = logIn(linked).catch(() => undefined);
}

/** Take the token out of the link that logs in, so that neither the history nor a bookmark keeps it. */
function takeFromAddress(): string | null {
  const parts = new URLSearchParams(location.hash.slice(1));
  const token = parts.get("token");
  if (token === null) return null;
  parts.delete("token");
  const rest = parts.toString();
  history.replaceState(history.state, "", location.pathname + location.search + (rest && `#${rest}`));
  return token.trim();
}

function readKept(): string | null {
  try {
    return sessionStorage.getItem(TOKEN_KEY);
  } catch {
    return null;
  }
}

interface Call {
  body?: object;
  /** A body that is JSON already. */
  text?: string;
  headers?: Record<string, string>;
  key?: string;
  signal?: AbortSignal;
  timeoutMs?: number;
}

async function call<T>(method: string, path: string, { body, text, headers: more, key, signal, timeoutMs }: Call): Promise<T> {
  await entered;
  const headers: Record<string, string> = { accept: "application/json", ...more };
  const payload = text ?? (body && JSON.stringify(body));
  const secret = token();
  // Reading needs no token, and an open page goes on reading when another server has the port.
  if (secret !== null && method !== "GET") headers["authorization"] = `Bearer ${secret}`;
  if (payload !== undefined) headers["content-type"] = "application/json";
  if (key !== undefined) headers["idempotency-key"] = key;
  const request = `${method} ${path}`;
  const response = await reach(path, { method, headers, body: payload }, request, signal, timeoutMs);
  const answer = await read(response, request);
  if (!response.ok) throw refusal(response, answer, request);
  heardAt.value = performance.now();
  return answer as T;
}

async function reach(
  path: string, init: RequestInit, request: string, signal?: AbortSignal, timeoutMs = TIMEOUT_MS,
): Promise<Response> {
  const timeout = AbortSignal.timeout(timeoutMs);
  try {
    const either = signal ? AbortSignal.any([signal, timeout]) : timeout;
    return await fetch(path, { ...init, cache: "no-store", signal: either });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw unreachable(timeout.aborted ? "The server does not answer" : "The server cannot be reached", request);
  }
}

/** An answer that breaks off in the middle is no answer. */
async function read(response: Response, request: string): Promise<unknown> {
  let text: string;
  try {
    text = await response.text();
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw unreachable("The server's answer broke off", request);
  }
  try {
    return JSON.parse(text);
  } catch {
    if (response.ok) throw unreachable("The server's answer was not complete", request);
    return null;
  }
}

function unreachable(message: string, request: string): ApiError {
  return new ApiError(0, "UNREACHABLE", message, { fix: "see whether `onceward up` still runs" }, request);
}

function refusal({ status, headers }: Response, answer: unknown, request: string): ApiError {
  const error = (answer as { error?: { code?: string; message?: string; context?: Record<string, unknown> } } | null)?.error;
  const message = error?.message ?? `The server answered ${status}`;
  const retryAfter = Number(headers.get("retry-after"));
  return new ApiError(status, error?.code ?? "UNKNOWN", message, error?.context ?? {}, request, retryAfter > 0 ? retryAfter * 1000 : 0);
}

function withParams(path: string, params: Params = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value != null && value !== "") query.set(name, String(value));
  }
  const text = query.toString();
  return text ? `${path}${path.includes("?") ? "&" : "?"}${text}` : path;
}
