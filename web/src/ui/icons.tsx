// Icons: our own strokes on a grid of 16, coloured by the text around them. They never stand alone.

import type { JSX } from "preact";

const PATHS = {
  ok: "M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13M5 8.2l2.1 2.1L11 6.2",
  busy: "M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13M6.7 5.4v5.2L10.8 8z",
  wait: "M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13M8 4.5V8l2.4 1.6",
  warn: "M8 2 1.4 13.8h13.2zM8 6.4v3.4M8 11.8v.1",
  bad: "M5.3 1.5h5.4l3.8 3.8v5.4l-3.8 3.8H5.3l-3.8-3.8V5.3zM8 4.7v4M8 11.1v.1",
  off: "M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13M5.2 8h5.6",
  copy: "M5.5 5.5v-3h8v8h-3M2.5 5.5h8v8h-8z",
  check: "M3 8.5l3.2 3.2L13 4.8",
  close: "M3.8 3.8l8.4 8.4M12.2 3.8l-8.4 8.4",
  search: "M7 2.2a4.8 4.8 0 1 0 0 9.6 4.8 4.8 0 0 0 0-9.6M10.5 10.5l3.3 3.3",
  pause: "M5.3 3.2v9.6M10.7 3.2v9.6",
  play: "M4.5 3v10l8.2-5z",
  sun: "M8 5.1a2.9 2.9 0 1 0 0 5.8 2.9 2.9 0 0 0 0-5.8M8 1.2v1.5M8 13.3v1.5M1.2 8h1.5M13.3 8h1.5M3.2 3.2l1 1M11.8 11.8l1 1M3.2 12.8l1-1M11.8 4.2l1-1",
  moon: "M13.2 9.7A5.8 5.8 0 0 1 6.3 2.8a5.8 5.8 0 1 0 6.9 6.9z",
  system: "M1.8 3h12.4v8H1.8zM5.5 13.8h5M8 11v2.8",
  help: "M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13M6.2 6.3c0-2.4 3.7-2.3 3.7-.1 0 1.4-1.9 1.5-1.9 3M8 11.4v.1",
  lock: "M3.5 7.2h9v6.6h-9zM5.4 7V5a2.6 2.6 0 0 1 5.2 0v2",
  menu: "M2 4h12M2 8h12M2 12h12",
  back: "M9.8 3.2 5 8l4.8 4.8",
  up: "M8 12.8V3.6M4 7.4l4-4 4 4",
  down: "M8 3.2v9.2M4 8.6l4 4 4-4",
  overview: "M2 2.5h5v6H2zM9 2.5h5v3.4H9zM9 7.5h5v6H9zM2 10.1h5v3.4H2z",
  cursors: "M2 4h8.5M2 8h5.5M2 12h10.5M12 2.2v3.6M9 6.2v3.6M14 10.2v3.6",
  workers: "M2 3.5h7v2.6H2zM6 6.9h8v2.6H6zM3.5 10.3h6v2.6h-6z",
  dead: "M2.2 3.4h11.6v9.2H2.2zM2.6 3.8 8 8.6l5.4-4.8M5.8 10.2l4.4 0",
  runs: "M3.5 2.2v11.6M3.5 4.5h6l2 2-2 2h-6M3.5 12.2h9",
  outcomes: "M2 5.2h10.4M9.6 2.4l2.8 2.8-2.8 2.8M14 10.8H3.6M6.4 8 3.6 10.8l2.8 2.8",
  keys: "M5 7.4a3 3 0 1 0 0 6 3 3 0 0 0 0-6M7.2 8.3l6-6M10.6 4.9l2.2 2.2",
  memory: "M3.4 2.1a1.6 1.6 0 1 0 0 3.2 1.6 1.6 0 0 0 0-3.2M12.4 4.5a1.6 1.6 0 1 0 0 3.2 1.6 1.6 0 0 0 0-3.2M5.8 10.6a1.6 1.6 0 1 0 0 3.2 1.6 1.6 0 0 0 0-3.2M4.9 4.2l6 1.5M3.9 5.2l1.5 5.5M7 11l4.3-3.6",
  lab: "M6.2 2v4.2L2.6 13a.7.7 0 0 0 .6 1h9.6a.7.7 0 0 0 .6-1L9.8 6.2V2M5 2h6M4.6 10h6.8",
  conversations: "M2 2.8h12v8H7l-3.4 2.8v-2.8H2zM5 5.6h6M5 8h4",
  alerts: "M3.4 11.4h9.2c-1-1-1.2-2.2-1.2-4.2 0-2.4-1.3-4-3.4-4s-3.4 1.6-3.4 4c0 2-.2 3.2-1.2 4.2M6.7 13.6h2.6M8 1.8v1.4",
  audit: "M3.5 1.8h6.6l2.4 2.4v10h-9zM5.8 6.2h4.6M5.8 8.8h4.6M5.8 11.4h2.6",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }): JSX.Element {
  return (
    <svg class="icon" viewBox="0 0 16 16" width={size} height={size} aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}

/** The mark of the product. */
export function Mark({ size = 24 }: { size?: number }): JSX.Element {
  return (
    <svg viewBox="0 0 32 32" width={size} height={size} aria-hidden="true">
      <rect width="32" height="32" rx="8" fill="#0f5e5a" />
      <circle cx="8.5" cy="16" r="3.5" fill="#ffc857" />
      <path d="M15 16h9.5M19.5 10l6 6-6 6" fill="none" stroke="#fff" stroke-width="3.2" stroke-linecap="round" stroke-linejoin="round" />
    </svg>
  );
}
