// Framed: a plain page of this server inside the console. The address of the console follows where it goes;
// what leads elsewhere opens in the console itself. Its keys are its own: nothing pressed inside is heard here.

import { useEffect, useRef } from "preact/hooks";
import { go } from "../core/router";

interface Props {
  /** What the frame is called. */
  title: string;
  /** The path that is to be shown. */
  page: string;
  /** Whether a path is a page that may stand here. */
  isOurs: (path: string) => boolean;
  /** Hears when somebody went to another page inside. */
  onWalk: (path: string) => void;
}

export function Framed({ title, page, isOurs, onWalk }: Props) {
  const frame = useRef<HTMLIFrameElement>(null);
  const first = useRef(page);
  const latest = useRef({ page, isOurs, onWalk });
  latest.current = { page, isOurs, onWalk };

  useEffect(() => {
    // A new `src` would add a step to the way back; this does not.
    const inside = frame.current?.contentWindow;
    const place = placeOf(frame.current);
    if (inside && place !== null && place !== page) inside.location.replace(page);
  }, [page]);

  const onLoad = () => {
    const place = placeOf(frame.current);
    if (place === null) return;
    frame.current?.contentDocument?.addEventListener("click", (event) => leave(event, latest.current.isOurs));
    if (place !== latest.current.page && latest.current.isOurs(place)) latest.current.onWalk(place);
  };

  return <iframe class="framed-page" ref={frame} src={first.current} title={title} onLoad={onLoad} />;
}

/** Where a frame is; null while it is nowhere, or where nobody may look (the browser's own page of errors). */
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
