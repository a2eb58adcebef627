// Elements that were described but not drawn, read as a tree or as text.
import type { ComponentChild, VNode } from "preact";

export interface Element {
  tag: string;
  children: (Element | string)[];
}

/** The elements and texts of a description that holds no components. */
export function elementsOf(child: ComponentChild): (Element | string)[] {
  if (child === null || child === undefined || typeof child === "boolean") return [];
  if (Array.isArray(child)) return child.flatMap(elementsOf);
  if (typeof child !== "object") return [String(child)];
  const { type, props } = child as VNode<{ children?: ComponentChild }>;
  const children = elementsOf(props.children);
  return typeof type === "string" ? [{ tag: type, children }] : children;
}

/** XML of the same. */
export function xmlOf(element: Element | string): string {
  if (typeof element === "string") return element.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  return `<${element.tag}>${element.children.map(xmlOf).join("")}</${element.tag}>`;
}

export function textOf(element: Element | string): string {
  return typeof element === "string" ? element : element.children.map(textOf).join("");
}
