// A claim card: a claim in our own words, the articles that make it, what was measured here, and the outcome in one line.
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { useApp } from "../hooks";
import { makeLink, writeLink } from "../permalink";

/** Titles of the articles by the letters that the cards use. */
export const ARTICLES: Record<string, string> = {
  A: "Transformers: how do they work internally?",
  B: "Visualizing and Explaining Transformer Models From the Ground Up",
  C: "How Transformers work in deep learning and NLP: an intuitive introduction",
  D: "Transformers Explained Visually: Not Just How, but Why They Work So Well",
  E: "Transformers Explained Visually (Part 3): Multi-head Attention, deep dive",
};

interface CardProps {
  id: string;
  title: string;
  from: string[]; // letters of articles
  claim: string;
  children: ComponentChildren;
}

export function Card({ id, title, from, claim, children }: CardProps) {
  const app = useApp();
  const card = useRef<HTMLElement>(null);
  const isLinked = app.place.value.section === id;
  useEffect(() => (isLinked && card.current ? keepCardInView(card.current) : undefined), [isLinked]);
  const link = `#${writeLink({ ...makeLink(app), place: { view: "claims", section: id } })}`;
  return (
    <section ref={card} class={isLinked ? "panel stack claim-card claim-linked" : "panel stack claim-card"} aria-labelledby={`card-${id}`} data-card={id}>
      <header>
        <h3 id={`card-${id}`}>{title}</h3>
        <a class="quiet" href={link} aria-label={`Link to the card: ${title}`} onClick={(event) => {
          event.preventDefault();
          app.goTo({ view: "claims", section: id });
        }}>
          #
        </a>
      </header>
      <p class="claim-text">
        <span class="quiet" title={from.map((letter) => ARTICLES[letter]).join("; ")}>
          {from.length > 1 ? "Articles" : "Article"} {from.join(", ")}:
        </span>{" "}
        {claim}
      </p>
      {children}
    </section>
  );
}

/** Scrolls to a card, and again whenever numbers that load above it push it down, until the reader does something. */
function keepCardInView(card: HTMLElement): () => void {
  const show = () => card.scrollIntoView({ block: "start" });
  const observer = new ResizeObserver(show);
  const userEvents = ["wheel", "pointerdown", "keydown", "touchstart"];
  const stop = () => {
    observer.disconnect();
    for (const event of userEvents) removeEventListener(event, stop);
  };
  for (const event of userEvents) addEventListener(event, stop, { passive: true });
  for (const sibling of card.parentElement?.children ?? []) observer.observe(sibling);
  show();
  return stop;
}

/** Shows the outcome of a card in one line. */
export function Outcome({ children }: { children: ComponentChildren }) {
  return <p class="claim-outcome">{children}</p>;
}
