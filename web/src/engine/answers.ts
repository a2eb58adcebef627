// What the engine answers: it unpacks a model, translates, traces, and gives the numbers of the trace that is shown.
import { nameSentence } from "../network";
import type { Acts, Manifest } from "../types";
import { compareMasking, findDiagonals } from "./comparisons";
import { type PackedModel, unpackModel } from "./package";
import { makeAccount, type Trace, traceSentence } from "./trace";
import type { Translator } from "./translator";

/** Questions to the engine, by name, with what each takes and gives. */
export interface EngineQuestions {
  open: { args: PackedModel; gives: null };
  translate: { args: { text: string; beam?: number }; gives: ReturnType<Translator["translate"]> };
  trace: Acts["trace"];
  edit: Acts["edit"];
  account: Acts["account"];
  masking: Acts["masking"];
  identity: Acts["identity"];
  tensor: { args: string; gives: Float32Array };
  parameter: { args: { name: string; first: number; end: number }; gives: Float32Array };
}

export type EngineAnswers = { [Q in keyof EngineQuestions]: (args: EngineQuestions[Q]["args"]) => EngineQuestions[Q]["gives"] | Promise<EngineQuestions[Q]["gives"]> };

/** Makes the manifest that all traces begin with, from that of the trace which was recorded in the file. */
function makeTemplate({ header, manifest }: PackedModel): Manifest {
  return {
    ...manifest,
    run: { ...manifest.run, device: `this browser, weights in ${header.precision}`, torch: "not used" },
    tensors: manifest.tensors.map(({ least: _, largest: __, edited: ___, ...row }) => row),
  };
}

/** Makes the functions that answer; they share one model and the trace that is shown. */
export function makeAnswers(): EngineAnswers {
  let translator: Translator;
  let template: Manifest;
  let shown: Trace | null = null;
  const requireTrace = () => {
    if (!shown) throw new Error("No sentence has been traced yet.");
    return shown;
  };
  const show = (question: Acts["trace"]["args"]) => {
    shown = traceSentence(translator, template, question);
    return shown.manifest;
  };
  return {
    async open(packed) {
      translator = await unpackModel(packed);
      template = makeTemplate(packed);
      return null;
    },
    translate: ({ text, beam }) => translator.translate(text, beam),
    trace: show,
    edit({ edits, keep_target }) {
      const { manifest } = requireTrace();
      const { run, target, inputs } = manifest;
      const isPrefixed = edits.some((edit) => edit.kind === "prefix");
      if (keep_target && isPrefixed) throw new Error("A beginning makes another translation; the one that is shown cannot be kept with it.");
      const written = typeof run.search.prefix === "string" && run.search.prefix ? run.search.prefix.split(" ").length : 0;
      const prefix = keep_target || isPrefixed ? [] : inputs.ids.slice(1, 1 + written);
      return show({ ...nameSentence(manifest), beam: Number(run.search.beam), edits, prefix_ids: prefix, ...(keep_target && { target_ids: target.ids }) });
    },
    masking: () => compareMasking(translator, requireTrace()),
    identity(args) {
      const beam = Number(requireTrace().manifest.run.search.beam);
      return findDiagonals(traceSentence(translator, template, { beam, ...args })); // beside the trace that is shown
    },
    account: (args) => makeAccount(translator, requireTrace(), args),
    tensor(name) {
      const tensor = requireTrace().tensors.get(name);
      if (!tensor) throw new Error(`${name} was not captured.`);
      return tensor.values;
    },
    parameter({ name, first, end }) {
      const { shape, values } = translator.model.parameter(name);
      const width = shape[1] ?? 1;
      return values.slice(first * width, end * width);
    },
  };
}
