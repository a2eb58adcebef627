// A piece as the tokenizer writes it; the mark of a space before it is dimmed, so that the letters are read first.

export const SPACE = "▁";

export function Piece(props: { text: string }) {
  const { text } = props;
  if (!text.startsWith(SPACE)) return <>{text}</>;
  return (
    <>
      <span class="space-mark">{SPACE}</span>
      {text.slice(1)}
    </>
  );
}
