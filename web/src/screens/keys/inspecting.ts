// Inspecting: what was pasted, sent to the server as it was typed, and what the server makes of it.

import { useEffect, useState } from "preact/hooks";
import type { Schemas } from "../../api/types";
import { asApiError, post, type ApiError } from "../../core/api";
import { membersOf } from "./spans";

export type Inspected = Schemas["InspectionResult"];
export type Explanation = Schemas["KeyComparison"];

export type Pasted =
  | { kind: "nothing" }
  | { kind: "broken"; problem: string }
  | { kind: "command"; fields: Record<string, unknown> }
  | { kind: "json"; text: string };

/** Words of which one is enough to take an object for a command. */
const PARTS = ["action", "task_id", "snapshot_id", "inputs", "expected_outputs"];
const REST_MS = 250;

export function pasted(text: string): Pasted {
  if (text.trim() === "") return { kind: "nothing" };
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return { kind: "broken", problem: (error as Error).message };
  }
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
  if (!isObject || !PARTS.some((part) => part in (value as object))) return { kind: "json", text };
  const members = membersOf(text);
  const given = value as Record<string, unknown>;
  const fields: Record<string, unknown> = {};
  for (const part of ["action", "task_id", "snapshot_id"]) if (part in given) fields[part] = given[part];
  for (const part of ["inputs", "expected_outputs"]) {
    const typed = members.get(part);
    if (typed !== undefined) fields[`${part}_text`] = typed;
  }
  return { kind: "command", fields };
}

export interface Side {
  data: Inspected | null;
  error: ApiError | null;
}

const NOTHING: Side = { data: null, error: null };

/** Ask when the person has stopped typing; an older answer never overwrites a newer one. */
export function useInspected(a: Pasted, b: Pasted): { a: Side; b: Side; compared: Side } {
  const [found, setFound] = useState({ a: NOTHING, b: NOTHING, compared: NOTHING });
  const asked = JSON.stringify([a, b]);
  useEffect(() => {
    let isOver = false;
    const timer = setTimeout(async () => {
      const [first, second, compared] = await Promise.all([inspect(a), inspect(b), compare(a, b)]);
      if (!isOver) setFound({ a: first, b: second, compared });
    }, REST_MS);
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [asked]);
  return found;
}

async function inspect(what: Pasted): Promise<Side> {
  if (what.kind === "command") return ask({ kind: "command", ...what.fields });
  if (what.kind === "json") return ask({ kind: "json", value_text: what.text });
  return NOTHING;
}

/** Two values that are no commands are compared as the inputs of two commands that are else the same. */
async function compare(a: Pasted, b: Pasted): Promise<Side> {
  const [first, second] = [comparable(a), comparable(b)];
  if (first === null || second === null || a.kind !== b.kind) return NOTHING;
  return ask({ kind: "command", ...first, other: second });
}

function comparable(what: Pasted): Record<string, unknown> | null {
  if (what.kind === "command") return what.fields;
  if (what.kind !== "json") return null;
  return { action: "compare", task_id: "-", snapshot_id: "-", inputs_text: `{"value":${what.text}}` };
}

async function ask(body: object): Promise<Side> {
  try {
    return { data: await post<Inspected>("/api/console/keys/inspect", body), error: null };
  } catch (error) {
    return { data: null, error: asApiError(error) };
  }
}
