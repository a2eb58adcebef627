// Errors in words.

/** Describes an error in one sentence. */
export function describeError(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
