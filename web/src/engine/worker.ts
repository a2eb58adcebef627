// The engine in a worker of its own, so that the page never waits for it: questions are answered one after the other.
import { describeError } from "../format";
import { type EngineQuestions, makeAnswers } from "./answers";

export interface EngineRequest {
  id: number;
  ask: keyof EngineQuestions;
  args: unknown;
}

export interface EngineReply {
  id: number;
  value?: unknown;
  problem?: string;
}

const scope = self as unknown as { postMessage(reply: EngineReply): void; onmessage: (event: MessageEvent<EngineRequest>) => void };
const answers = makeAnswers() as Record<string, (args: unknown) => unknown>;
let before: Promise<void> = Promise.resolve();
scope.onmessage = ({ data: { id, ask, args } }) => {
  before = before.then(async () => {
    try {
      scope.postMessage({ id, value: await answers[ask]?.(args) });
    } catch (error) {
      scope.postMessage({ id, problem: describeError(error) });
    }
  });
};
