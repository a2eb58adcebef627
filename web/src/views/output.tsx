// One step of decoding: its candidates, and the parts that add up to the logit of the chosen piece.
import { useState } from "preact/hooks";
import { formatFixed, formatNumber, formatProbability, formatSigned, quotePiece } from "../format";
import { useApp, useLoaded } from "../hooks";
import { measureWordConfidences, sumOf } from "../measures";
import { describeSection, listLabels, listWords } from "../network";
import { Bars, Menu, Missing, NotReady, Value } from "../parts";
import type { App } from "../state";
import type { AccountPart, LogitAccount, Manifest, Side, Step } from "../types";
import { Candidates } from "./candidates";
import { WhoTaughtIt } from "./teachers";

const FIRST_BARS = 12; // of heads and layers shown at first

export function OutputView() {
  const app = useApp();
  const manifest = app.manifest.value;
  const step = manifest?.steps[app.step.value];
  if (!manifest || !step) return null;
  return (
    <div class="output-body">
      <Candidates manifest={manifest} step={step} />
      <LogitOrigin app={app} manifest={manifest} step={step} key={`${manifest.id} ${step.step}`} />
      <WordConfidences app={app} manifest={manifest} />
      <WhoTaughtIt manifest={manifest} key={`teachers ${manifest.id}`} />
    </div>
  );
}

/** Shades the words of the translation that a person would likely change; nothing where the model was not calibrated. */
function WordConfidences({ app, manifest }: { app: App; manifest: Manifest }) {
  const confidences = measureWordConfidences(manifest);
  if (!confidences) return null;
  return (
    <section class="panel stack" aria-label="How sure is it of each word?">
      <h2>How sure is it of each word?</h2>
      <p class="sure-words" lang={manifest.languages?.target}>
        {listWords(manifest.target).map((word, number) => (
          <button
            type="button"
            class="sure-word"
            style={app.hidden.value ? {} : { "--unsure": `${Math.round(60 * (1 - confidences[number]!))}%` }}
            onClick={() => (app.step.value = manifest.target.words.indexOf(number))}
          >
            {word}
            <span class="quiet">
              <Value shown={formatProbability(confidences[number]!)} exact={String(confidences[number])} />
            </span>
          </button>
        ))}
      </p>
      <p class="quiet">
        How often a word as likely as this one stood in the reference as well, on a dev set (“pellucid calibrate”). The darker a word, the likelier a person would
        change it.
      </p>
    </section>
  );
}

/** Shows the account of the chosen piece's logit, or of its difference to the logit of another piece. */
function LogitOrigin({ app, manifest, step }: { app: App; manifest: Manifest; step: Step }) {
  const [other, setOther] = useState<number | undefined>(undefined);
  const args = { step: step.step, piece: step.chosen.id, ...(other === undefined ? {} : { other }) };
  const loaded = useLoaded(() => app.askSource("account", args), `${manifest.id} ${step.step} ${other}`);
  return (
    <section class="panel stack" aria-label="What adds to the logit">
      <header class="row">
        <h2>
          Why {quotePiece(step.chosen.piece)}? What adds to {other === undefined ? "its logit" : "the difference"}
        </h2>
        <RivalPicker step={step} other={other} onChange={setOther} canAsk={app.source.act !== undefined} />
      </header>
      <NotReady loaded={loaded} />
      {loaded.state === "ready" && !loaded.value && <Missing message="The account of this choice was not captured." />}
      {loaded.state === "ready" && loaded.value && <LogitParts app={app} manifest={manifest} account={loaded.value} />}
      <p class="quiet">
        Each bar is what a part adds to the number directly; what it causes in later layers is in their bars.
      </p>
    </section>
  );
}

function RivalPicker(props: { step: Step; other: number | undefined; onChange: (id: number | undefined) => void; canAsk: boolean }) {
  const rivals = props.step.top.filter((candidate) => candidate.id !== props.step.chosen.id);
  const offered = props.canAsk ? rivals : rivals.slice(0, 1);
  const isListed = props.other === undefined || offered.some((rival) => rival.id === props.other);
  return (
    <span class="row">
      <Menu
        label="Compare with"
        value={props.other === undefined ? "" : String(props.other)}
        options={[
          ["", "no other piece"],
          ...offered.map((rival) => [String(rival.id), `${quotePiece(rival.piece)} ${formatProbability(rival.prob)}`] as const),
          ...(isListed ? [] : [[String(props.other), `piece ${props.other}`] as const]),
        ]}
        onPick={(id) => props.onChange(id === "" ? undefined : Number(id))}
      />
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

function LogitParts({ app, manifest, account }: { app: App; manifest: Manifest; account: LogitAccount }) {
  const [showsAll, setShowsAll] = useState(false);
  const parts = sortBySize(account, ["self", "cross", "ffn"]);
  const shown = showsAll ? parts : parts.slice(0, FIRST_BARS);
  const cross = sumByKey(account, "cross");
  const self = sumByKey(account, "self");
  const makeBar = (label: string, value: number) => ({ label, value, shown: formatFixed(value) });
  const reach = Math.max(...sumByGroup(account).map((share) => Math.abs(share.value)), ...parts.map((part) => Math.abs(part.value)));
  const isSigned = [...parts, ...sumByGroup(account)].some((part) => part.value < 0);
  const target = account.other ? `${quotePiece(account.piece)} minus ${quotePiece(account.other.piece)}` : `the logit of ${quotePiece(account.piece)}`;
  return (
    <>
      <p>
        The parts add up to <Value shown={formatSigned(account.sum)} />; captured for {target}: <Value shown={formatSigned(account.logit)} />{" "}
        <span class="quiet">
          (difference <Value shown={formatNumber(Math.abs(account.sum - account.logit))} />)
        </span>
      </p>
      <Bars caption="By kind of part, all bars on one scale" reach={reach} signed={isSigned} bars={sumByGroup(account).map((share) => makeBar(share.label, share.value))} />
      {cross && (
        <Bars reach={reach} signed={isSigned} caption="Cross-attention by source word: what its heads add from each" bars={sumByWord(cross, manifest.source).map((share) => makeBar(share.label, share.value))} />
      )}
      {self && (
        <Bars reach={reach} signed={isSigned} caption="Self-attention of the decoder by the piece read" bars={self.slice(0, account.step + 1).map((value, i) => makeBar(`${i} ${listLabels(manifest, "T")[i] ?? ""}`, value))} />
      )}
      <Bars
        reach={reach} signed={isSigned}
        caption="By head and by layer, the largest first"
        bars={shown.map((part) => ({ ...makeBar(describePart(part), part.value), ...makeOpener(app, part) }))}
      />
      {parts.length > FIRST_BARS && (
        <button type="button" class="button" aria-expanded={showsAll} onClick={() => setShowsAll(!showsAll)}>
          {showsAll ? "Show the largest only" : `Show all ${parts.length}`}
        </button>
      )}
    </>
  );
}

/** Describes a part without the name of its stack, which is always the decoder. */
function describePart(part: AccountPart): string {
  const head = parseHeadPart(part);
  const section = describeSection(head?.section ?? part.name).replace(/^[^,]+, (?=layer)/, "");
  return head ? `${section}, head ${head.head + 1}` : section;
}

function makeOpener(app: App, part: AccountPart): { onOpen?: () => void } {
  const head = parseHeadPart(part);
  return head ? { onOpen: () => app.goTo({ view: "head", section: head.section, head: head.head, row: app.step.value }) } : {};
}

interface LabelledValue {
  label: string;
  value: number;
}

const GROUPS: Record<AccountPart["group"], string> = {
  embedding: "embedding of the piece read",
  positions: "its position",
  self: "self-attention",
  cross: "cross-attention",
  ffn: "feed-forward",
  norm: "shifts of the norms",
  bias: "biases",
};

/** Sums the parts of each kind, in the order of the model. */
export function sumByGroup(account: LogitAccount): LabelledValue[] {
  const groups = Object.keys(GROUPS) as AccountPart["group"][];
  return groups.flatMap((group) => {
    const parts = account.parts.filter((part) => part.group === group);
    return parts.length ? [{ label: GROUPS[group], value: sumOf(parts.map((part) => part.value)) }] : [];
  });
}

/** Sorts the parts of some groups by absolute value, the largest first. */
export function sortBySize(account: LogitAccount, groups: AccountPart["group"][]): AccountPart[] {
  const parts = account.parts.filter((part) => groups.includes(part.group));
  return parts.sort((one, other) => Math.abs(other.value) - Math.abs(one.value));
}

/** Sums what the heads of a group add from each position they read; null where no head is split by position. */
export function sumByKey(account: LogitAccount, group: "self" | "cross"): number[] | null {
  const keyed = account.parts.filter((part) => part.group === group && part.by_key);
  if (!keyed.length) return null;
  const size = Math.max(...keyed.map((part) => part.by_key?.length ?? 0));
  return Array.from({ length: size }, (_, key) => sumOf(keyed.map((part) => part.by_key?.[key] ?? 0)));
}

/** Sums values over the pieces of each source word; special tokens stand for themselves. */
export function sumByWord(values: number[], side: Side): LabelledValue[] {
  const words = listWords(side);
  const shares = new Map<string, LabelledValue>();
  values.forEach((value, index) => {
    const word = side.words[index] ?? null;
    const key = word === null ? `mark ${index}` : `word ${word}`;
    const label = word === null ? (side.pieces[index] ?? String(index)) : (words[word] ?? side.pieces[index] ?? "");
    const share = shares.get(key) ?? { label, value: 0 };
    share.value += value;
    shares.set(key, share);
  });
  return [...shares.values()];
}

/** Parses the name of a head's part: "decoder.3.cross.head.2" is head 2 of decoder.3.cross. */
export function parseHeadPart(part: AccountPart): { section: string; head: number } | null {
  const [, section, head] = /^(.+)\.head\.(\d+)$/.exec(part.name) ?? [];
  return section === undefined ? null : { section, head: Number(head) };
}
