// Pages: a list of the Lab, which pages in its own way. What is shown stays where it is; what is new is counted.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { type ApiError, asApiError, get } from "../../core/api";
import { useKeys } from "../../core/keys";
import { useLive } from "../../core/live";
import type { LabPage } from "../../lab/models";

export interface LabList<T> {
  items: T[];
  isLoaded: boolean;
  error: ApiError | undefined;
  more: (() => void) | null;
  fresh: number;
  showFresh: () => void;
}

const LIMIT = 100;

export function useLabPages<T>(path: string, idOf: (row: T) => string): LabList<T> {
  const live = useLive<LabPage<T>>(["lab"], path, { limit: LIMIT });
  const [shown, setShown] = useState<LabPage<T> | null>(null);
  const [problem, setProblem] = useState<ApiError>();
  const isAsked = useRef(false);
  const first = live.data;

  useEffect(() => {
    if (!first) return;
    const news = new Map(first.items.map((row) => [idOf(row), row]));
    setShown((old) => (old && old.items.length ? { ...old, items: old.items.map((row) => news.get(idOf(row)) ?? row) } : first));
  }, [first]);

  const known = new Set(shown?.items.map(idOf));
  const fresh = shown?.items.length ? (first?.items.filter((row) => !known.has(idOf(row))).length ?? 0) : 0;
  const showFresh = useCallback(() => setShown(first ?? null), [first]);
  useKeys(fresh ? { ".": { text: "Show new rows", run: showFresh } } : {}, "List");

  const next = shown?.nextCursor ?? null;
  const more = async () => {
    if (next === null || isAsked.current) return;
    isAsked.current = true;
    try {
      const page = await get<LabPage<T>>(path, { limit: LIMIT, cursor: next });
      setShown((old) => (old?.nextCursor === next ? { items: [...old.items, ...page.items], nextCursor: page.nextCursor } : old));
      setProblem(undefined);
    } catch (error) {
      setProblem(asApiError(error));
    } finally {
      isAsked.current = false;
    }
  };
  return {
    items: shown?.items ?? [],
    isLoaded: shown !== null,
    error: live.error ?? problem,
    more: next === null ? null : () => void more(),
    fresh,
    showFresh,
  };
}
