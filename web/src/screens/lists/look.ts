// Look: how a state is shown: an icon, a word and a colour.

export interface Look {
  kind: "ok" | "busy" | "wait" | "warn" | "bad" | "off";
  word: string;
}
