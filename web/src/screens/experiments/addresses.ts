// Addresses: where the console shows the pages of the Lab.

import { type PageName, parsePage } from "../../lab/models";

const TABS: Record<PageName, string> = { review: "review", compare: "compare", results: "results", runs: "new" };

/** The tab of a page of the Lab, or null: what an address asks for is shown only if it is one. */
export function tabOf(page: string | null): string | null {
  const found = parsePage(page);
  return found && TABS[found.name];
}

/** The address in the console where a page of the Lab is shown. */
export function hrefOf(page: string): string {
  const tab = tabOf(page) ?? "new";
  const query = new URLSearchParams(tab === "results" ? { tab } : { tab, page });
  return `/experiments?${query.toString()}`;
}
