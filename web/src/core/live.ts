// Live: data of a screen that stays true by itself. Owns when to ask again: at once, when an area changed
// (once a second at most), after an action of one's own; never while the person asked for stillness.

import { effect } from "@preact/signals";
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { acted, ApiError, asApiError, get, type Params } from "./api";
import { isShown } from "./clock";
import { useKeys } from "./keys";
import { isPaused, onChange, type Area } from "./stream";

export { connection, dataAge, isPaused, isStoreAway, refusal, retryIn, retryNow, togglePause } from "./stream";
export type { Area, Connection } from "./stream";

/** Parameters that say which thing is meant: the answer about another one must not be shown. */
const IDENTITY = new Set(["name", "scope", "key", "id", "workspace", "run", "group", "step", "path"]);
const REST_MS = 1_000;

export interface Live<T> {
  /** Undefined only before the first answer. */
  data: T | undefined;
  error: ApiError | undefined;
  isLoading: boolean;
  reload: () => void;
}

/** What the server says at `path`, kept fresh; nothing is asked while `path` is null. */
export function useLive<T>(areas: Area[], path: string | null, params: Params = {}): Live<T> {
  const [shown, setShown] = useState<{ about: string; data?: T; error?: ApiError }>({ about: "" });
  const [isLoading, setLoading] = useState(false);
  const about = `${path} ${JSON.stringify(Object.entries(params).filter(([name]) => IDENTITY.has(name)))}`;
  const query = JSON.stringify(params);
  const ask = useCallback(
    async (signal: AbortSignal) => {
      if (path === null) return;
      setLoading(true);
      try {
        const data = await get<T>(path, JSON.parse(query) as Params, signal);
        if (!signal.aborted) setShown({ about, data });
      } catch (problem) {
        const error = asApiError(problem);
        if (!signal.aborted) setShown((old) => ({ about, error, data: old.about === about ? old.data : undefined }));
      } finally {
        if (!signal.aborted) setLoading(false);
      }
    },
    [path, query, about],
  );
  const reload = useAsking(areas, path === null ? null : ask);
  const isAboutThis = shown.about === about;
  return {
    data: isAboutThis ? shown.data : undefined,
    error: isAboutThis ? shown.error : undefined,
    isLoading: isLoading || (path !== null && !isAboutThis),
    reload,
  };
}

export interface Paged<T> {
  items: T[];
  isLoading: boolean;
  error: ApiError | undefined;
  /** Loads the page after the last; null when there is none. */
  more: (() => void) | null;
  /** How many rows came since that are not shown yet. */
  fresh: number;
  /** Whether the rows that are shown would now stand in another order. */
  isReordered: boolean;
  showFresh: () => void;
  as_of: string | null;
  /** False before the first answer. */
  isLoaded: boolean;
}

interface PageAnswer<T> {
  items: T[];
  next: string | null;
  as_of: string;
}

interface Sheet<T> {
  query: string;
  items: T[];
  next: string | null;
  as_of: string | null;
  /** The newest first page, when it is not what is shown. */
  waiting: PageAnswer<T> | null;
  fresh: number;
}

const EMPTY_PAGES_MAX = 20;

/** A list that is read page by page. What is shown stays where it is; what is new is counted. */
export function usePages<T extends object>(
  areas: Area[],
  path: string,
  params: Params = {},
  opts: { limit?: number; rowKey?: (row: T) => string } = {},
): Paged<T> {
  const { limit = 50, rowKey = identity } = opts;
  const query = JSON.stringify({ limit, ...params });
  const [sheet, setSheet] = useState<Sheet<T> | null>(null);
  const [error, setError] = useState<ApiError>();
  const [isLoading, setLoading] = useState(true);
  const keyOf = useRef(rowKey);
  keyOf.current = rowKey;
  const isAsked = useRef(false);

  const ask = useCallback(
    async (signal: AbortSignal) => {
      setLoading(true);
      try {
        const page = await somePage<T>(path, JSON.parse(query) as Params, signal);
        if (signal.aborted) return;
        setSheet((old) => (old?.query === query ? merge(old, page, keyOf.current) : sheetOf(query, page)));
        setError(undefined);
      } catch (problem) {
        if (!signal.aborted) setError(asApiError(problem));
      } finally {
        if (!signal.aborted) setLoading(false);
      }
    },
    [path, query],
  );
  useAsking(areas, ask);

  const current = sheet?.query === query ? sheet : null;
  const next = current?.next ?? null;
  const more = useCallback(async () => {
    if (next === null || isAsked.current) return;
    isAsked.current = true;
    setLoading(true);
    try {
      const page = await somePage<T>(path, { ...(JSON.parse(query) as Params), after: next });
      setSheet((old) => (old?.query === query && old.next === next ? append(old, page, keyOf.current) : old));
    } catch (problem) {
      setError(asApiError(problem));
    } finally {
      isAsked.current = false;
      setLoading(false);
    }
  }, [path, query, next]);

  const showFresh = useCallback(
    () => setSheet((old) => (old?.waiting ? sheetOf(old.query, old.waiting) : old)),
    [],
  );
  useKeys(current?.waiting ? { ".": { text: "Show new rows", run: showFresh } } : {}, "List");
  // While another question is under way the answer to the last one stays.
  const visible = current ?? sheet;
  return {
    items: visible?.items ?? [],
    isLoading,
    error,
    more: next === null ? null : () => void more(),
    fresh: current?.fresh ?? 0,
    isReordered: current?.waiting != null && current.fresh === 0,
    showFresh,
    as_of: visible?.as_of ?? null,
    isLoaded: sheet !== null,
  };
}

/** A filtered page may come back empty though more rows follow. */
async function somePage<T>(path: string, params: Params, signal?: AbortSignal): Promise<PageAnswer<T>> {
  let page = await get<PageAnswer<T>>(path, params, signal);
  for (let asked = 1; page.items.length === 0 && page.next !== null && asked < EMPTY_PAGES_MAX; asked += 1) {
    page = await get<PageAnswer<T>>(path, { ...params, after: page.next }, signal);
  }
  return page;
}

function sheetOf<T>(query: string, page: PageAnswer<T>): Sheet<T> {
  return { query, items: page.items, next: page.next, as_of: page.as_of, waiting: null, fresh: 0 };
}

/** Rows that are shown get their new values in place; new ones wait; those that are gone go. */
function merge<T extends object>(old: Sheet<T>, page: PageAnswer<T>, keyOf: (row: T) => string): Sheet<T> {
  if (old.items.length === 0) return sheetOf(old.query, page);
  const news = new Map(page.items.map((row) => [keyOf(row), row]));
  const keys = old.items.map(keyOf);
  const shown = new Set(keys);
  const fresh = page.items.filter((row) => !shown.has(keyOf(row))).length;
  const isWhole = page.next === null;
  // Rows after the first page may still exist.
  const reach = isWhole ? keys.length : keys.findLastIndex((key) => news.has(key));
  const items = old.items.flatMap((row, index) => news.get(keys[index] ?? "") ?? (index > reach ? row : []));
  const isSameOrder = page.items.every((row, index) => items[index] === row);
  // A list that ended with its first page may have got a second one.
  const next = isWhole ? null : old.next ?? (items.length <= page.items.length ? page.next : null);
  return { ...old, items, as_of: page.as_of, next, fresh, waiting: isSameOrder ? null : page };
}

function append<T extends object>(old: Sheet<T>, page: PageAnswer<T>, keyOf: (row: T) => string): Sheet<T> {
  const shown = new Set(old.items.map(keyOf));
  const added = page.items.filter((row) => !shown.has(keyOf(row)));
  return { ...old, items: [...old.items, ...added], next: page.next };
}

/** What tells a row from the others, by the names that our answers use. */
function identity(row: object): string {
  const { id, seq, scope, key, workspace, run, name } = row as Record<string, unknown>;
  if (key !== undefined) return JSON.stringify([scope, key]);
  if (run !== undefined) return JSON.stringify([workspace, run]);
  return String(id ?? seq ?? name ?? JSON.stringify(row));
}

/** Ask now, when an area changed, and after an action; returns what asks again at once. */
function useAsking(areas: Area[], ask: ((signal: AbortSignal) => Promise<void>) | null): () => void {
  const wanted = areas.join();
  const again = useRef<() => void>(() => undefined);
  useEffect(() => {
    if (ask === null) return;
    let control = new AbortController();
    let timer: number | undefined;
    let isBusy = false;
    let isDue = false;
    const run = async (): Promise<void> => {
      clearTimeout(timer);
      timer = undefined;
      isBusy = true;
      isDue = false;
      const { signal } = control;
      await ask(signal);
      if (signal.aborted) return;
      isBusy = false;
      timer = window.setTimeout(() => {
        timer = undefined;
        if (isDue) void due();
      }, REST_MS);
    };
    const due = (): void => {
      isDue = true;
      if (isBusy || timer !== undefined || isPaused.value || !isShown.value) return;
      void run();
    };
    again.current = () => {
      control.abort();
      control = new AbortController();
      void run();
    };
    void run();
    const names = wanted.split(",");
    const endChanges = onChange((changed) => {
      if (changed === "all" || changed.some((area) => names.includes(area))) due();
    });
    let actions = acted.peek();
    const endActions = acted.subscribe((value) => {
      if (value !== actions) again.current();
      actions = value;
    });
    const endWaiting = effect(() => {
      // Changes that arrive while the page is hidden are loaded when it is visible again.
      if (!isPaused.value && isShown.value && isDue) due();
    });
    return () => {
      control.abort();
      clearTimeout(timer);
      endChanges();
      endActions();
      endWaiting();
    };
  }, [wanted, ask]);
  return useCallback(() => again.current(), []);
}
