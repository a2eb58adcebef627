// The tabs of the views, and the view in the middle of the page.
import type { ComponentChild } from "preact";
import { useApp } from "./hooks";
import { zoomOut } from "./navigation";
import type { View } from "./state";
import { AlignView } from "./views/align";
import { BeamView } from "./views/beam";
import { BlockView } from "./views/block";
import { CellView } from "./views/cell";
import { ChecksView } from "./views/checks";
import { ClaimsView } from "./views/claims";
import { CompareView } from "./views/compare";
import { ExportView } from "./views/export";
import { HeadView } from "./views/head";
import { HeadsView } from "./views/heads";
import { MapView } from "./views/map";
import { OutputView } from "./views/output";
import { PositionsView } from "./views/positions";
import { TokensView } from "./views/tokens";
import { VerdictView } from "./views/verdict";
import { WordsView } from "./views/words";

const VIEWS: Record<View, () => ComponentChild> = {
  map: () => <MapView />,
  block: () => <BlockView />,
  head: () => <HeadView />,
  cell: () => <CellView />,
  tokens: () => <TokensView />,
  positions: () => <PositionsView />,
  output: () => <OutputView />,
  beam: () => <BeamView />,
  words: () => <WordsView />,
  claims: () => <ClaimsView />,
  heads: () => <HeadsView />,
  align: () => <AlignView />,
  checks: () => <ChecksView />,
  compare: () => <CompareView />,
  debug: () => <VerdictView />,
  export: () => <ExportView />,
};

const TABS: [View, string][] = [
  ["map", "Network"],
  ["tokens", "Pieces"],
  ["positions", "Positions"],
  ["words", "Words"],
  ["heads", "Heads"],
  ["output", "Output"],
  ["beam", "Beam"],
  ["align", "Alignment"],
  ["compare", "Compare"],
  ["claims", "Claims"],
  ["debug", "Verdict"],
  ["checks", "Checks"],
  ["export", "Export"],
];

export function ViewTabs() {
  const app = useApp();
  const { view: current } = app.place.value;
  const isInside = current === "block" || current === "head" || current === "cell";
  return (
    <nav class="tabs" aria-label="Pictures">
      {TABS.map(([view, name]) => (
        <button
          type="button"
          key={view}
          aria-current={view === current || (isInside && view === "map") ? "page" : undefined}
          onClick={() => app.goTo({ view })}
        >
          {name}
        </button>
      ))}
      <span class="spring" />
      {isInside ? (
        <button type="button" class="out" onClick={() => zoomOut(app)}>
          ← zoom out <kbd>Esc</kbd>
        </button>
      ) : null}
      {app.story.value === null ? (
        <button type="button" class="begin" onClick={() => (app.story.value = 1)}>
          Tell the story
        </button>
      ) : null}
    </nav>
  );
}

export function CurrentView() {
  const { place } = useApp();
  return <div class={`view view-${place.value.view}`}>{VIEWS[place.value.view]()}</div>;
}
