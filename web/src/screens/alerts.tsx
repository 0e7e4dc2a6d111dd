// Alerts and doctor: what is wrong with cursors now, and whether this machine can keep promises.

import type { Schemas } from "../api/types";
import { useLive } from "../core/live";
import { ErrorBox, Skeleton, Tabs, useTab } from "../ui/bits";
import { Page } from "../ui/page";
import { Doctor } from "./alerts/doctor";
import { AlertList } from "./alerts/list";
import { Rules } from "./alerts/rules";

export default function Screen() {
  const tab = useTab("tab", "alerts");
  const { data, error, reload } = useLive<Schemas["AlertList"]>(["alerts"], "/api/console/alerts");
  const firing = data?.items.filter((each) => each.state === "firing").length;
  const tabs = [
    { id: "alerts", title: "Alerts", count: firing },
    { id: "rules", title: "Rules" },
    { id: "doctor", title: "Doctor" },
  ];
  return (
    <Page title="Alerts and doctor" question="What is wrong, and is the installation set up correctly?">
      <Tabs label="Alerts and doctor" tabs={tabs} />
      {tab === "doctor" ? (
        <Doctor />
      ) : (
        <>
          {error !== undefined && data === undefined && <ErrorBox error={error} onRetry={reload} />}
          {error === undefined && data === undefined && <Skeleton />}
          {data !== undefined && (tab === "rules" ? <Rules rules={data.rules} /> : <AlertList alerts={data.items} />)}
        </>
      )}
    </Page>
  );
}
