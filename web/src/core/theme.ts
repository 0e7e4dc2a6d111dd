// Theme: light, dark, or as the system wishes. A script before this one sets it ahead of the first paint.

import { effect } from "@preact/signals";
import { stored } from "./stored";

export const THEMES = ["system", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

export const theme = stored<Theme>("theme", "system", THEMES);

export function startTheme(): void {
  effect(() => {
    if (theme.value === "system") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = theme.value;
  });
}

/** The other one first, so that something is seen to happen; then this one for good; then as the system. */
export function nextTheme(): void {
  const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
  const order: Theme[] = isDark ? ["system", "light", "dark"] : ["system", "dark", "light"];
  theme.value = order[(order.indexOf(theme.value) + 1) % order.length] ?? "system";
}
