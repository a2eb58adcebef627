// Claims of articles about Transformers, each beside measurements of this model on this sentence.

import { useApp } from "../hooks";
import { ExponentCard, NamesCard, NearnessCard, ShapesCard, SoftmaxCard } from "./cards_numbers";
import { DiagonalCard, InferenceCard, RolesCard, ScalingCard, WidthCard } from "./cards_runs";
import { AnalogyCard, SimilarCard } from "./cards_words";
import { ARTICLES } from "./claim_card";

export function ClaimsView() {
  const manifest = useApp().manifest.value;
  if (!manifest) return null;
  return (
    <div class="stack claims-body">
      <h2>What articles say, and what this model does</h2>
      <p class="quiet">
        Popular articles explain Transformers well, and are wrong in places. Each card has one of their claims, and the numbers of {manifest.model.name} for the sentence above. What is shown was captured from that run, or is computed from it: here, or by another run of the model.
      </p>
      <div class="claim-cards" key={manifest.id}>
        <SoftmaxCard manifest={manifest} />
        <ExponentCard manifest={manifest} />
        <NearnessCard manifest={manifest} />
        <DiagonalCard manifest={manifest} />
        <ShapesCard manifest={manifest} />
        <WidthCard manifest={manifest} />
        <InferenceCard manifest={manifest} />
        <ScalingCard manifest={manifest} />
        <RolesCard manifest={manifest} />
        <SimilarCard manifest={manifest} />
        <AnalogyCard />
        <NamesCard manifest={manifest} />
      </div>
      <section aria-label="The articles" class="quiet">
        <h3>The articles</h3>
        <dl class="facts">
          {Object.entries(ARTICLES).map(([letter, title]) => (
            <>
              <dt>{letter}</dt>
              <dd>{title}</dd>
            </>
          ))}
        </dl>
      </section>
    </div>
  );
}
