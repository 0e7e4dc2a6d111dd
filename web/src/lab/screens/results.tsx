// Results: the results of all comparisons, in the Lab's own document.

import type { JSX } from "preact";
import { get } from "../../core/api";
import { patiently } from "../../core/patience";
import { Notice } from "../../ui/bits";
import { type Results, RUNS_PAGE } from "../models";
import { LabLink, Unloaded, useLoaded } from "../parts";
import { loadSettings, useHeading, useServerWatch } from "../place";
import { ResultsView } from "../results";

export default function ResultsScreen(): JSX.Element {
  useHeading("Results", "Which variant wins, and can it be trusted?");
  const { data, error } = useLoaded<Results>(async (signal) => {
    await loadSettings(signal);
    return patiently(() => get<Results>("/api/experiments/results", {}, signal), signal);
  }, "");
  useServerWatch(true);
  const nothing = (
    <Notice>Nothing has been decided yet. Results appear here after the first decision. <LabLink page={RUNS_PAGE}>Choose runs to compare</LabLink>.</Notice>
  );
  return <div class="lab">{data ? <ResultsView results={data} nothing={nothing} /> : <Unloaded error={error} />}</div>;
}
