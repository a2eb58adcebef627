// Every visible text whose contrast is below what WCAG 2.2 asks at level AA: 4.5, or 3 for large letters (1.4.3) and for the
// mark of a space, which is a drawing (1.4.11).
() => {
    const pen = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    const parsed = new Map();
    /** Red, green, blue and opacity of any colour that CSS can write. */
    const rgba = (text) => {
        if (!parsed.has(text)) {
            pen.clearRect(0, 0, 1, 1);
            pen.fillStyle = text;
            pen.fillRect(0, 0, 1, 1);
            const [red, green, blue, alpha] = pen.getImageData(0, 0, 1, 1).data;
            parsed.set(text, [red, green, blue, alpha / 255]);
        }
        return parsed.get(text);
    };
    const over = ([r, g, b, a], below) => [r, g, b].map((value, i) => a * value + (1 - a) * below[i]);
    const linear = (value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
    const luminance = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
    const around = (element) => element.parentElement ?? element.getRootNode().host ?? null;
    const paper = (element) => {
        if (!element) return [255, 255, 255];
        const style = getComputedStyle(element);
        return over(rgba(style.backgroundColor), paper(around(element)));
    };
    /** Of text in a drawing: the shape of its group that it stands on. */
    const ground = (element) => {
        const shape = element instanceof SVGElement ? element.closest("g")?.querySelector("rect, circle") : null;
        const under = paper(element instanceof SVGElement ? element.closest("svg").parentElement : element);
        const fill = shape ? getComputedStyle(shape).fill : "none";
        return fill === "none" ? under : over(rgba(fill), under);
    };
    const opacity = (element) => (element ? Number(getComputedStyle(element).opacity) * opacity(around(element)) : 1);
    const found = [];
    let looked = 0;
    for (const element of document.querySelectorAll(".pellucid *")) {
        const text = [...element.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE).map((node) => node.data).join("").trim();
        if (!text || element.closest("canvas, script, style, option, [hidden]") || element.matches(":disabled, :disabled *")) continue;
        if (!element.checkVisibility({ opacityProperty: true, visibilityProperty: true }) || element.closest(".unseen")) continue;
        const style = getComputedStyle(element);
        const ink = rgba(element instanceof SVGElement ? style.fill : style.color);
        const behind = ground(element);
        const seen = over([ink[0], ink[1], ink[2], ink[3] * opacity(element)], behind);
        const [light, dark] = [luminance(seen), luminance(behind)].sort((a, b) => b - a);
        const ratio = (light + 0.05) / (dark + 0.05);
        const size = Number.parseFloat(style.fontSize);
        const large = text === "\u2581" || size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
        looked += 1;
        if (ratio < (large ? 3 : 4.5)) found.push(`${text.slice(0, 40)} <${element.tagName} ${element.getAttribute("class") ?? ""}>: ${ratio.toFixed(2)}`);
    }
    return { looked, found: [...new Set(found)] };
}
