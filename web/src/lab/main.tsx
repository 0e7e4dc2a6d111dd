// Main: the Lab in a document of its own: the small bar at the top, the screen of the address, and what is shown when
// the server is away.

import { render, type ComponentType, type JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { takeSettingsFrom } from "../core/api";
import { startClock } from "../core/clock";
import { hasLetters, startKeys } from "../core/keys";
import { startTheme } from "../core/theme";
import { Skeleton } from "../ui/bits";
import { TopBar } from "../ui/standalone";
import { Toasts } from "../ui/toasts";
import { Token } from "../ui/token";
import { type Modes, type PageAddress, type PageName, parsePage, RESULTS_PAGE, RUNS_PAGE } from "./models";
import { Away, Failure } from "./parts";
import { heading } from "./place";

type Screen = ComponentType<{ id: string; modes: Modes }>;

const LOADS: Record<PageName, () => Promise<{ default: Screen | ComponentType }>> = {
  runs: () => import("./screens/runs"),
  results: () => import("./screens/results"),
  review: () => import("./screens/review"),
  compare: () => import("./screens/compare"),
};

function App({ page }: { page: PageAddress }): JSX.Element {
  const { title, question } = heading.value;
  const hasKeys = hasLetters.value;
  useEffect(() => {
    document.title = `${title} · Experiment Lab`;
  }, [title]);
  useEffect(() => {
    document.body.classList.toggle("no-letters", !hasKeys);
  }, [hasKeys]);
  const link = (name: PageName, href: string, text: string): JSX.Element => <a href={href} aria-current={page.name === name ? "page" : undefined}>{text}</a>;
  return (
    <>
      <TopBar label="Experiment Lab">
        {link("runs", RUNS_PAGE, "Runs")}
        {link("results", RESULTS_PAGE, "Results")}
      </TopBar>
      <Away />
      <main id="main" tabIndex={-1} aria-labelledby="title">
        <h1 id="title" tabIndex={-1}>{title}</h1>
        <p class="question">{question}</p>
        <div id="content"><Loaded page={page} /></div>
      </main>
      <Toasts />
      <Token />
    </>
  );
}

function Loaded({ page: { name, id, modes } }: { page: PageAddress }): JSX.Element {
  const [Screen, setScreen] = useState<Screen>();
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    LOADS[name]().then((found) => setScreen(() => found.default as Screen), setError);
  }, [name]);
  if (error !== null) return <Failure error={error} />;
  return Screen ? <Screen id={id} modes={modes} /> : <Skeleton />;
}

takeSettingsFrom("/api/config");
startTheme();
startClock();
startKeys();
const root = document.getElementById("app");
const page = parsePage(location.pathname + location.search) ?? parsePage(RUNS_PAGE);
if (root && page) render(<App page={page} />, root);
