// Light or dark theme, and the few colours that a canvas needs besides its scale; theme.css repeats their numbers.
import { signal } from "@preact/signals";
import { useApp } from "./hooks";

const mediaQuery = typeof matchMedia === "function" ? matchMedia("(prefers-color-scheme: dark)") : null;
const systemDark = signal(mediaQuery?.matches ?? false);
mediaQuery?.addEventListener("change", (event) => {
  systemDark.value = event.matches;
});

/** Tells whether the page is dark now. */
export function useDark(): boolean {
  const { theme } = useApp();
  return theme.value === "auto" ? systemDark.value : theme.value === "dark";
}

export interface Inks {
  panel: string;
  ink: string;
  quiet: string;
  line: string;
  hatch: string;
  accent: string;
  follow: string;
  followInk: string;
}

const LIGHT: Inks = {
  panel: "#ffffff",
  ink: "#1c2230",
  quiet: "#565e6e",
  line: "#dcd9d0",
  hatch: "#a9a69c",
  accent: "#1f4e8c",
  follow: "#0b7055",
  followInk: "#ffffff",
};
const DARK: Inks = {
  panel: "#1c1f27",
  ink: "#e9e7e1",
  quiet: "#a6abb8",
  line: "#343945",
  hatch: "#5b6170",
  accent: "#8fb8f5",
  follow: "#4fd8b8",
  followInk: "#0c1a16",
};

export function getInks(dark: boolean): Inks {
  return dark ? DARK : LIGHT;
}
