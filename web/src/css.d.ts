// Style sheets are imported as text, as part of the one script.
declare module "*.css" {
  const text: string;
  export default text;
}
