// Activation functions of one number, as the page explains them and as its engine computes them.

/** x / (1 + e^(-x)). */
export function silu(x: number): number {
  return x / (1 + Math.exp(-x));
}

/** x Φ(x), Φ being the distribution function of the normal distribution. */
export function gelu(x: number): number {
  return x * 0.5 * (1 + erf(x / Math.SQRT2));
}

/** Computes erf as 2/√π e^(-x²) Σ 2ⁿ x^(2n+1) / (1·3·5···(2n+1)), whose terms have one sign, so that nothing cancels. */
export function erf(x: number): number {
  if (Math.abs(x) > 6) return Math.sign(x);
  let term = x;
  let sum = x;
  for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(sum); n += 1) {
    term *= (2 * x * x) / (2 * n + 1);
    sum += term;
  }
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
}
