// Hooks by which components reach the state of their page, and wait for numbers.
import { createContext } from "preact";
import { useContext, useEffect, useState } from "preact/hooks";
import { type App, describeError, type Tensor } from "./state";

export const AppContext = createContext<App | null>(null);

/** Gets the state of the page that this component belongs to. */
export function useApp(): App {
  const app = useContext(AppContext);
  if (!app) throw new Error("a component of the page stands outside of it");
  return app;
}

export type Loaded<T> = { state: "loading" } | { state: "ready"; value: T } | { state: "missing"; message: string };

/** Waits for a promise; `load` runs again when `key` changes, and a value that is already `known` is given at once. */
export function useLoaded<T>(load: () => Promise<T>, key: string, known?: T): Loaded<T> {
  const [result, setResult] = useState<{ key: string; loaded: Loaded<T> } | null>(null);
  useEffect(() => {
    if (known !== undefined) return;
    let isMounted = true;
    const report = (loaded: Loaded<T>) => isMounted && setResult({ key, loaded });
    load().then(
      (value) => report({ state: "ready", value }),
      (error) => report({ state: "missing", message: describeError(error) }),
    );
    return () => {
      isMounted = false;
    };
  }, [key, known === undefined]); // the value itself belongs to the key
  if (known !== undefined) return { state: "ready", value: known };
  return result?.key === key ? result.loaded : { state: "loading" };
}

/** Waits for a tensor of the trace that is shown. */
export function useTensor(name: string): Loaded<Tensor> {
  const app = useApp();
  return useLoaded(() => app.loadTensor(name), `${app.manifest.value?.id} ${name}`, app.peekTensor(name));
}
