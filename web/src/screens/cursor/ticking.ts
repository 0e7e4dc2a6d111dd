// Ticking: time that goes on between two answers, and stops while the server is unavailable.

import { useEffect, useRef, useState } from "preact/hooks";
import { connection } from "../../core/live";

/** Seconds since this answer came; they do not grow on data that is known to be old. */
export function useElapsed(answer: unknown): number {
  const came = useRef({ answer, at: performance.now() });
  const shown = useRef(0);
  if (came.current.answer !== answer) {
    came.current = { answer, at: performance.now() };
    shown.current = 0;
  }
  const [, redraw] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => {
      if (connection.peek() === "live") redraw((n) => n + 1);
    }, 1000);
    return () => clearInterval(timer);
  }, []);
  if (connection.value === "live") shown.current = (performance.now() - came.current.at) / 1000;
  return shown.current;
}

/** Ask again now and then, also where no event would say so: a dead worker changes nothing. */
export function useEvery(seconds: number, found: { isLoading: boolean; reload: () => void }): void {
  const latest = useRef(found);
  latest.current = found;
  useEffect(() => {
    const timer = setInterval(() => {
      const isWanted = connection.value === "live" && !document.hidden && !latest.current.isLoading;
      if (isWanted) latest.current.reload();
    }, seconds * 1000);
    return () => clearInterval(timer);
  }, [seconds]);
}

/** Seconds from the moment of the answer until this time, by the server's clock. */
export function secondsBetween(from: string, to: string): number {
  return (Date.parse(to) - Date.parse(from)) / 1000;
}
