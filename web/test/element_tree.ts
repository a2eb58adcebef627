// Virtual elements that are not drawn, read as a tree, as XML or as text.
import type { ComponentChild, VNode } from "preact";

export interface Element {
  tag: string;
  children: (Element | string)[];
}

/** Lists the elements and texts of a virtual node that holds no components. */
export function listElements(child: ComponentChild): (Element | string)[] {
  if (child === null || child === undefined || typeof child === "boolean") return [];
  if (Array.isArray(child)) return child.flatMap(listElements);
  if (typeof child !== "object") return [String(child)];
  const { type, props } = child as VNode<{ children?: ComponentChild }>;
  const children = listElements(props.children);
  return typeof type === "string" ? [{ tag: type, children }] : children;
}

/** Writes an element as XML. */
export function writeXml(element: Element | string): string {
  if (typeof element === "string") return element.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  return `<${element.tag}>${element.children.map(writeXml).join("")}</${element.tag}>`;
}

export function readText(element: Element | string): string {
  return typeof element === "string" ? element : element.children.map(readText).join("");
}
