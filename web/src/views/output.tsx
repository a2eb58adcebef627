// What the model could have written at a step, and the parts that add up to the logit of what it wrote.
import { useState } from "preact/hooks";
import { count, figure, fixed, probability, quoted, signed } from "../format";
import { useApp, useLoaded } from "../hooks";
import { byGroup, byKey, bySize, byWord, headOf, rivals } from "../logit_account";
import type { App } from "../state";
import { labelsOf, logitsOf, sectionInWords } from "../tensor_graph";
import type { Account, AccountPart, Manifest, Step } from "../types";
import { Bars } from "./bars";
import { Loading, Missing, Value } from "./values";

const BARS = 12; // of heads and layers shown at first

export function OutputView() {
  const app = useApp();
  const manifest = app.manifest.value;
  const step = manifest?.steps[app.step.value];
  if (!manifest || !step) return null;
  return (
    <div class="output-body">
      <Candidates app={app} manifest={manifest} step={step} />
      <Origin app={app} manifest={manifest} step={step} key={`${manifest.id} ${step.step}`} />
    </div>
  );
}

function Candidates({ app, manifest, step }: { app: App; manifest: Manifest; step: Step }) {
  const logits = logitsOf(manifest);
  const chosenBelow = !step.top.some((each) => each.id === step.chosen.id);
  const shown = chosenBelow ? [...step.top, step.chosen] : step.top;
  const others = chosenBelow ? step.others - step.chosen.prob : step.others;
  const open = (id: number) => () => logits && app.go({ view: "cell", tensor: logits.name, index: [step.step, id] });
  const bars = shown.map((each) => ({
    label: each.piece,
    value: each.prob,
    shown: probability(each.prob),
    ...(each.id === step.chosen.id ? { mark: manifest.forced ? "given" : "written" } : {}),
    ...(logits?.captured ? { onOpen: open(each.id) } : {}),
  }));
  const rest = { label: `the other ${count(step.others_count - (chosenBelow ? 1 : 0))}`, value: others, shown: probability(others) };
  return (
    <section class="panel stack" aria-label="What could come next">
      <h2>
        Step {step.step + 1} of {manifest.steps.length}: after {quoted(step.input)}
      </h2>
      <Bars bars={[...bars, rest]} reach={1} caption="Probability of the next piece: softmax of the logits as they are" />
      <p class="quiet">
        {quoted(step.chosen.piece)} is number {count(step.rank)} of {count(step.top.length + step.others_count)}; its logit is{" "}
        <Value shown={figure(step.chosen.logit)} />. Entropy <Value shown={figure(step.entropy)} /> nats: as open as a choice between{" "}
        <Value shown={figure(Math.exp(step.entropy))} /> equally likely pieces.
        {step.rank > 1 && !manifest.forced ? " The beam chose it although another was likelier here, for what came after." : ""}
      </p>
    </section>
  );
}

/** The account of the written piece, against another one if wanted. */
function Origin({ app, manifest, step }: { app: App; manifest: Manifest; step: Step }) {
  const [other, setOther] = useState<number | undefined>(undefined);
  const args = { step: step.step, piece: step.chosen.id, ...(other === undefined ? {} : { other }) };
  const loaded = useLoaded(() => app.ask("account", args), `${manifest.id} ${step.step} ${other}`);
  return (
    <section class="panel stack" aria-label="What adds to the logit">
      <header class="row">
        <h2>What adds to {other === undefined ? "its logit" : "the difference"}</h2>
        <Contrast manifest={manifest} step={step} other={other} onChange={setOther} canAsk={app.source.act !== undefined} />
      </header>
      {loaded.state === "loading" && <Loading />}
      {loaded.state === "missing" && <Missing says={loaded.says} />}
      {loaded.state === "ready" && !loaded.value && <Missing says="The account of this choice is not captured here." />}
      {loaded.state === "ready" && loaded.value && <Parts app={app} manifest={manifest} account={loaded.value} />}
      <p class="quiet">
        Direct effects, with every norm frozen as it was in this run. What a part changes in later parts is counted in those parts, not in its
        own.
      </p>
    </section>
  );
}

function Contrast(props: { manifest: Manifest; step: Step; other: number | undefined; onChange: (id: number | undefined) => void; canAsk: boolean }) {
  const found = rivals(props.manifest, props.step.step);
  const offered = props.canAsk ? found : found.slice(0, 1);
  const listed = props.other === undefined || offered.some((each) => each.id === props.other);
  return (
    <span class="row">
      <label>
        Compare with{" "}
        <select
          value={props.other === undefined ? "" : String(props.other)}
          onChange={(event) => props.onChange(event.currentTarget.value === "" ? undefined : Number(event.currentTarget.value))}
        >
          <option value="">no other piece</option>
          {offered.map((each) => (
            <option value={String(each.id)}>
              {quoted(each.piece)} {probability(each.prob)}
            </option>
          ))}
          {!listed && <option value={String(props.other)}>piece {props.other}</option>}
        </select>
      </label>
      {props.canAsk && (
        <label>
          or id{" "}
          <input
            class="output-id-field"
            type="number"
            min={0}
            max={props.step.top.length + props.step.others_count - 1}
            onChange={(event) => event.currentTarget.value !== "" && props.onChange(Number(event.currentTarget.value))}
          />
        </label>
      )}
    </span>
  );
}

function Parts({ app, manifest, account }: { app: App; manifest: Manifest; account: Account }) {
  const [all, setAll] = useState(false);
  const parts = bySize(account, ["self", "cross", "ffn"]);
  const shown = all ? parts : parts.slice(0, BARS);
  const cross = byKey(account, "cross");
  const self = byKey(account, "self");
  const bar = (label: string, value: number) => ({ label, value, shown: fixed(value) });
  const reach = Math.max(...byGroup(account).map((each) => Math.abs(each.value)), ...parts.map((part) => Math.abs(part.value)));
  const what = account.other ? `${quoted(account.piece)} minus ${quoted(account.other.piece)}` : `the logit of ${quoted(account.piece)}`;
  return (
    <>
      <p>
        The parts add up to <Value shown={signed(account.sum)} />; captured for {what}: <Value shown={signed(account.logit)} />{" "}
        <span class="quiet">
          (difference <Value shown={figure(Math.abs(account.sum - account.logit))} />)
        </span>
      </p>
      <Bars caption="By kind of part, all bars on one scale" reach={reach} bars={byGroup(account).map((each) => bar(each.label, each.value))} />
      {cross && (
        <Bars reach={reach} caption="Cross-attention by source word: what its heads add from each" bars={byWord(cross, manifest.source).map((each) => bar(each.label, each.value))} />
      )}
      {self && (
        <Bars reach={reach} caption="Self-attention of the decoder by the piece read" bars={self.slice(0, account.step + 1).map((value, i) => bar(`${i} ${labelsOf(manifest, "T")[i] ?? ""}`, value))} />
      )}
      <Bars
        reach={reach}
        caption="By head and by layer, the largest first"
        bars={shown.map((part) => ({ ...bar(partInWords(part), part.value), ...opening(app, part) }))}
      />
      {parts.length > BARS && (
        <button type="button" class="button" aria-expanded={all} onClick={() => setAll(!all)}>
          {all ? "Show the largest only" : `Show all ${parts.length}`}
        </button>
      )}
    </>
  );
}

/** Without the name of the stack: all parts stand in the one that writes. */
function partInWords(part: AccountPart): string {
  const head = headOf(part);
  const section = sectionInWords(head?.section ?? part.name).replace(/^[^,]+, (?=layer)/, "");
  return head ? `${section}, head ${head.head + 1}` : section;
}

function opening(app: App, part: AccountPart): { onOpen?: () => void } {
  const head = headOf(part);
  return head ? { onOpen: () => app.go({ view: "head", section: head.section, head: head.head, row: app.step.value }) } : {};
}
