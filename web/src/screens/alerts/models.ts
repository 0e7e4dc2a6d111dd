// Models: alerts, their rules and the doctor's checks as the API tells them.

import type { Schemas } from "../../api/types";
import type { Look } from "../lists/look";
import { duration } from "../../core/format";

export type AlertKind = Alert["kind"];

export type Alert = Schemas["AlertItem"];
export type Rule = Schemas["RuleItem"];
export type Check = Schemas["Check"];

const UNITS: Record<Exclude<AlertKind, "lag">, [one: string, many: string]> = {
  steals: ["lease takeover", "lease takeovers"],
  errors: ["failure in a row", "failures in a row"],
  parked: ["message waiting for a retry", "messages waiting for a retry"],
  dead: ["new dead letter", "new dead letters"],
};

/** Such as `12 min behind` or `3 lease takeovers`. */
export function amount(kind: AlertKind, value: number): string {
  if (kind === "lag") return `${duration(value)} behind`;
  const [one, many] = UNITS[kind];
  return `${value.toLocaleString("en")} ${value === 1 ? one : many}`;
}

export function alertLook(state: Alert["state"]): Look {
  const looks = {
    firing: { kind: "bad", word: "firing" },
    pending: { kind: "warn", word: "pending" },
    cleared: { kind: "ok", word: "cleared" },
  } as const;
  return looks[state];
}

export function checkLook(status: Check["status"]): Look {
  const looks = {
    ok: { kind: "ok", word: "ok" },
    note: { kind: "off", word: "note" },
    warn: { kind: "warn", word: "warning" },
    fail: { kind: "bad", word: "fails" },
  } as const;
  return looks[status];
}

/** A rule as a sentence. */
export function ruleText(rule: Rule): string {
  const where = rule.cursor === "*" ? "any cursor" : `a cursor like ${rule.cursor}`;
  const within = rule.window_seconds > 0 ? ` within ${duration(rule.window_seconds)}` : "";
  const long = rule.for_seconds > 0 ? ` for ${duration(rule.for_seconds)}` : "";
  if (rule.kind === "lag") {
    const over = rule.clear === 0 ? "when it has caught up" : `at ${duration(rule.clear)} or less`;
    return `Fires when ${where} is more than ${amount("lag", rule.threshold)}${long}; clears ${over}.`;
  }
  const [, many] = UNITS[rule.kind];
  const some = rule.threshold === 0 ? `any ${many}` : `more than ${amount(rule.kind, rule.threshold)}`;
  const over = rule.clear === 0 ? "when there are none" : `at ${rule.clear} or less`;
  return `Fires when ${where} has ${some}${within}${long}; clears ${over}.`;
}

/** What was measured, and what was asked for. */
export function alertText(alert: Alert): string {
  const limit = alert.kind === "lag" ? duration(alert.threshold) : alert.threshold.toLocaleString("en");
  return `${amount(alert.kind, alert.value)}; the rule allows ${limit}`;
}
