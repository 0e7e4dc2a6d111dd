// Experiments: the Lab in this frame: lists and results of our own, and its screens for judging.

import { config } from "../core/api";
import { route } from "../core/router";
import { heading, hostAt } from "../lab/place";
import { Empty, Tabs, useTab } from "../ui/bits";
import { Page } from "../ui/page";
import { hrefOf, tabOf } from "./experiments/addresses";
import { Comparisons } from "./experiments/comparisons";
import { Desk } from "./experiments/desk";
import { LiveResults } from "./experiments/results";
import { Runs } from "./experiments/runs";

const TABS = [
  { id: "comparisons", title: "Comparisons" },
  { id: "runs", title: "Runs" },
  { id: "results", title: "Results" },
  { id: "compare", title: "Compare" },
  { id: "review", title: "Review" },
  { id: "new", title: "Import and set up" },
];
const QUESTIONS: Record<string, string> = {
  comparisons: "What waits for a decision, and what was decided?",
  runs: "What was made, and how good is it?",
  results: "Which variant wins, and can it be trusted?",
  compare: "Which one is better? Names stay hidden until you have submitted.",
  review: "How good is it?",
  new: "What should be judged next?",
};

hostAt(hrefOf);

export default function Screen() {
  const asked = useTab("tab", "comparisons");
  const tab = TABS.some((each) => each.id === asked) ? asked : "comparisons";
  const page = route.value.query.get("page");
  if (config.value && !config.value.has_lab) return <NoLab />;
  const isDesk = tab === "compare" || tab === "review" || tab === "new";
  // A judge sees what is judged in the heading.
  const isJudged = (tab === "compare" || tab === "review") && tabOf(page) === tab;
  const { title, question } = isJudged ? heading.value : { title: "Lab", question: QUESTIONS[tab]! };
  return (
    <Page title={title} question={question}>
      <Tabs label="Lab" tabs={TABS} />
      {tab === "comparisons" && <Comparisons />}
      {tab === "runs" && <Runs />}
      {tab === "results" && <LiveResults />}
      {isDesk && <Desk tab={tab} page={tabOf(page) === tab ? page : null} question={QUESTIONS[tab]!} />}
    </Page>
  );
}

function NoLab() {
  return (
    <Page title="Lab" question={QUESTIONS["results"]!}>
      <Empty
        title="This server runs without the Lab"
        text="The Lab compares what agents made, and keeps every judgement once. Start the server with it, or open it by itself."
        commands={["onceward up", "onceward lab"]}
      />
    </Page>
  );
}
