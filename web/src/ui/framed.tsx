// Framed: a plain page of this server inside the console. The address of the console follows where it goes;
// what leads elsewhere opens in the console itself. Its keys are its own: nothing pressed inside is heard here.

import { useEffect, useRef, useState } from "preact/hooks";
import { connection } from "../core/live";
import { go } from "../core/router";
import { Notice } from "./bits";

interface Props {
  /** What the frame is called. */
  title: string;
  /** The path that is to be shown. */
  page: string;
  /** Whether a path is a page that may stand here. */
  isOurs: (path: string) => boolean;
  /** Called when the person follows a link inside. */
  onWalk: (path: string) => void;
}

export function Framed(props: Props) {
  const [turn, setTurn] = useState(0);
  const [isLost, setLost] = useState(false);
  const again = () => {
    setLost(false);
    setTurn(turn + 1);
  };
  const isLive = connection.value === "live";
  const wasLive = useRef(isLive);
  useEffect(() => {
    // It came back while the browser's own page of errors was shown.
    if (isLive && !wasLive.current && isLost) again();
    wasLive.current = isLive;
  }, [isLive, isLost]);
  return (
    <>
      {isLost && (
        <Notice kind="warn">
          This page could not be loaded: the server did not answer. <button type="button" onClick={again}>Try again</button>
        </Notice>
      )}
      <Frame key={turn} {...props} isLost={isLost} onLost={() => setLost(true)} />
    </>
  );
}

function Frame({ title, page, isOurs, onWalk, isLost, onLost }: Props & { isLost: boolean; onLost: () => void }) {
  const frame = useRef<HTMLIFrameElement>(null);
  const first = useRef(page);
  const latest = useRef({ page, isOurs, onWalk });
  latest.current = { page, isOurs, onWalk };

  useEffect(() => {
    // A new `src` would add a step to the way back; this does not.
    const place = placeOf(frame.current);
    if (place !== null && place !== page) frame.current?.contentWindow?.location.replace(page);
  }, [page]);

  const onLoad = () => {
    const place = placeOf(frame.current);
    if (place === null) {
      onLost();
      return;
    }
    frame.current?.contentDocument?.addEventListener("click", (event) => leave(event, latest.current.isOurs));
    if (place !== latest.current.page && latest.current.isOurs(place)) latest.current.onWalk(place);
  };

  return <iframe class="framed-page" ref={frame} src={first.current} title={title} onLoad={onLoad} hidden={isLost} />;
}

/** Where a frame is; null while it is not loaded, or not readable (the browser's own error page). */
function placeOf(frame: HTMLIFrameElement | null): string | null {
  try {
    const { pathname, search, protocol } = frame!.contentWindow!.location;
    return protocol === "about:" ? null : pathname + search;
  } catch {
    return null;
  }
}

/** A link that leads out of the pages inside is followed out here. */
function leave(event: MouseEvent, isOurs: (path: string) => boolean): void {
  const link = (event.target as Element | null)?.closest?.("a[href]") as HTMLAnchorElement | null;
  const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
  if (!link || !isPlain || event.defaultPrevented || link.target || link.hasAttribute("download")) return;
  const target = new URL(link.href);
  if (target.origin !== location.origin || isOurs(target.pathname) || target.pathname.startsWith("/api/")) return;
  event.preventDefault();
  go(target.pathname + target.search);
}
