// Style sheets are imported as text: they travel inside the one script.
declare module "*.css" {
  const text: string;
  export default text;
}
