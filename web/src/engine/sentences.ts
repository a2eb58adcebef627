// The ends of the sentences of a text in any language, as in src/pellucid/data/text/sentences.py, where each rule is explained.

export const WHITE = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000"; // what Python calls white space

const readWords = (text: string) => new Set(text.trim().split(/\s+/u));

const WESTERN_MARKS = ".!?…‼⁇⁈⁉‽";
const CERTAIN_MARKS = "。！？｡।॥؟۔։።፧፨။།។៕᠃᠉෴᙮꓿";
const GREEK_QUESTION_MARK = ";\u037e";
const MARKS = WESTERN_MARKS + CERTAIN_MARKS + GREEK_QUESTION_MARK;
const CLOSERS = String.raw`["'”’»›)\]}」』）】〉》〕*_¹²³⁰⁴-⁹†‡\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]`;
const TAIL =
  String.raw`(?:${CLOSERS}|[“«‹](?=[${WHITE}]|${CLOSERS})|\[[\p{L}\p{N}_]{1,3}\])*` + String.raw`(?:[${WHITE}][»›](?=[${WHITE},.;]|$)|[${WHITE}][」』])?`;
const OPENERS = String.raw`(?:[(\[\{「『（【《〈\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff–—\-][${WHITE}]*)*`;
const SENTENCE_END = new RegExp(
  String.raw`([${MARKS}](?<![${MARKS}][${MARKS}])[${MARKS}]*(?:[${WHITE}][!?！？]+(?=[${WHITE}]|$|${CLOSERS}))*)${TAIL}` +
    String.raw`(?=([${WHITE}]*)(${OPENERS})([^${WHITE}]?))`,
  "gu",
);

const LETTER_OR_DIGIT = /[\p{L}\p{N}]/u;
const LETTER = String.raw`[^${WHITE}\p{Nd}!-\/:-@\[-\x60\{-~¡-©«-¹»-¿\u2000-\u206f\u3000-\u303f]`;
const LAST_WORD = new RegExp(
  String.raw`(?:^|(?<=[${WHITE}(\[\/–—\-]))["'’“„«]*(?:[DLdl]['’])?((?:${LETTER}\.[${WHITE}]?)*${LETTER}+)$`,
  "u",
);
const INITIALS = new RegExp(String.raw`^(?:(?:${LETTER}\.[${WHITE}]?)*${LETTER}|(?:${LETTER}\.)+${LETTER}{1,3})$`, "u");
const LONGEST_BEFORE = 24;
const FIRST_WORD = new RegExp(String.raw`(${LETTER}+)(?=[${WHITE}'’,])`, "uy");
const GREEK_LETTER = /^[\u0370-\u03ff\u1f00-\u1fff]/u;
const UNSPACED_LETTER = /[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\u{20000}-\u{3ffff}]$/u;

const LABEL = /^(?:[0-9]{1,3}|[IVX]{1,4}|[\p{L}\p{Nl}\p{No}])(?:\.(?:[0-9]{1,3}|[\p{L}\p{Nl}\p{No}]))*$/u;
const ORDINAL = new RegExp(
  String.raw`(?:^|[${WHITE}])(?:(?<!I )am|der|die|das|dem|den|des|im|ins|vom|zum|zur|beim|ab|bis|seit|und|jede[mnrs]?|eine[mnrs]?)` +
    String.raw`[${WHITE}](?:[1-9][0-9]?|[IVX]{2,7})$|\([1-9][0-9]?$`,
  "iu",
);
const PLAIN_NUMBER = new RegExp(String.raw`(?:^|(?<=[${WHITE}(]))(?:[1-9][0-9]?|[IVX]{2,7})$`, "u");
const NUMBER_START = /(?:[0-9]|[IVX]{2,7}(?![\p{L}\p{N}]))/uy;
const GERMAN_MONTHS = readWords("Januar Jänner Februar März April Mai Juni Juli August September Oktober November Dezember Jahrhundert");
const LEADING_ABBREVIATIONS = readWords(`
  Adm Brig Capt Cmdr Col Cpl dipl dhr Dir dott dr Dra drs Frl Gen Gov Hon Hr Hrn Ing judr Lt Maj Messrs mevr Mgr
  mlle mlles mme mmes mr mrs Ms msgr Mt mudr mvdr paeddr Pfc phdr Pres Prof Pvt Rep Reps Rev rndr Sen Sens Sgt sig
  sra srta Supt акад доц ім
  avv Doç Exma Exmo Öğr sigg Sn Srs Sras Yrd
  bijv bzw cf d.h e.g esim i.e např np p.ej p.es p.ex popř příp t.ex t.j tj tzn tzv vgl vs z.b напр т.е т.зв т.к
`);
const ABBREVIATIONS = readWords(`
  Abb Abs al apod approx aprox assn av avda ave Bd bde bldg blvd boul Bros ca cca chap chr cía Co corp dept doc dpto
  eds ee einschl evtl Fa ff Fr geb gegr gest ggf hl hrsg hs inc inkl jh jhd jr kap Lic ltd Min mio mj mld mm mrd Nr
  nrs num núm obl pág págs pl pp pr prof pte resp sek sog sr st Sta std Ste sté str sv taf tel tél teléf tis tsd tř Ud
  Uds ul univ uu Vd Vds vols zz zzgl św
  вул гр грн др коп млн млрд обл пл просп проф руб св см ст тис тыс ул
`);
const ABBREVIATIONS_BEFORE_NUMBERS = readWords(`
  abb abs apt art arts bd cap ch čís čl col ed fig figs lit max min nar no nos nr odst op pag par pos rdn ref roč sec
  sect tab tlf ust vol ziff godz kl
  jan jän janv feb febr févr mar apr avr abr jun jul juil aug ago sep sept oct okt nov dec déc dez dic ene
  гл ок прибл рис стр табл
`);
const FIRST_WORDS = readWords(`
  A After All Also Although An And Another As At Because Before Both But By Each Even Every For From He Her Here His
  How However I If In Is It Its Many Most My Not Now On One Only Or Our Perhaps She Since So Some Such That The Their
  Then There These They This Those Though Through To Under We What When Where Which While Who Why With Yes You Your
  Aber Alle Als Auch Auf Aus Bei Beim Bis Da Damit Dann Das Dass Denn Der Deshalb Die Dies Diese Dieser Dieses Doch
  Dort Ein Eine Einen Einer Er Es Für Ich Ihr Ihre Im In Ist Ja Jetzt Kein Keine Man Mein Meine Mit Nach Nein Nicht
  Noch Nun Nur Ob Obwohl Oder Sein Seine Seit Sie Sind So Und Unser Vom Vor War Warum Was Weil Wenn Wer Wie Wir
  Wo Zu Zum Zur Zwar
  À Après Au Aucun Aussi Aux Avec C Car Ce Cela Celle Celui Cependant Ces Cet Cette Chaque Comme Comment D Dans
  Depuis Dès Donc Elle Elles En Est Et Grâce Il Ils J Je L La Là Le Les Leur Leurs Lors Lorsque Ma Mais Même Mon N Ne
  Non Nos Notre Nous On Ou Où Oui Par Pas Plus Pour Pourquoi Puis Qu Quand Que Quel Quelle Quelques Qui S Sa Sans Se
  Ses Si Son Sous Sur Tous Tout Toutes Très Tu Un Une Vos Votre Vous Y
  Además Al Algunos Así Aunque Cada Como Con Cuando Desde Después Donde E El Él Ella Ellos Era Es Esa Ese Eso Esta
  Está Estas Este Esto Estos Fue Ha Hay Hoy La Las Lo Los Me Mi Mientras Muchos Muy Nada Ni No Nuestra Nuestro O Para
  Pero Podemos Por Porque Pues Qué Quién Según Ser Sí Sin Sino Sobre Son Su Sus Tal También Te Tiene Todo Todos Tras
  Una Uno Unos Usted Ya Yo
  Abych Ale Ani Až Byl Byla Bylo Byly Celkem Co Do Jak Jako Jde Je Jeho Jejich Její Jen Jestli Ještě Již Jsem Jsou K
  Každý Kde Kdy Kdyby Když Kdo Která Které Který Mezi Na Nad Naopak Napravo Navíc Není Nikdo O Od Ona Oni Po Pod Podle
  Pokud Potom Právě Pro Proč Proto Protože Při S Ta Tak Také Takže Tato Tedy Ten Tento Teď To Toto Tuto Ty U Už V Ve
  Však Všechno Z Za Ze Že
  Але Без Біля Був Була Були В Ви Від Він Вона Вони Все Всі Де Для До Є З За Зараз І Із Його Її Їх Й Коли Ми Мій На
  Наш Не Ні Ось Отже По Потім При Про Та Так Також Там Те То Тому Тут У Це Цей Ця Через Чи Що Щоб Я Як Якщо
  А Вот Вы Где Если Ещё И Из Их К Как Когда Кто Мы Но О Об Она Они Оно От По Почему С Сейчас Он Теперь Тогда Ты
  Затем Здесь После Потом Поэтому     Уже Что Чтобы Это Этот Эта Эти
`);
const ABBREVIATIONS_IN_SMALL_LETTERS = readWords("etc usw itd atd incl excl resp temp est orig");
const ALPHABETIC = /[a-z\u00df-\u024f\u0430-\u045f]/u;
const VOWEL = /[aeiouyß-\u00e6\u00e8-\u00f0\u00f2-\u00ff\u0100-\u024fаеиоуыэюяєіїёў]/u;
const ELLIPSIS = /^(?:\.{2,}|…\.*)$/u;
const NAME_PARTICLES = readWords("La Le Las Los El");
const COMPANY_FORM = new RegExp(String.raw`(?:Inc|Ltd|LLC|Corp|GmbH|AG|Plc)(?=[${WHITE}.,])`, "uy");
const WHITE_RUN = new RegExp(`[${WHITE}]+`, "gu");
const WHITE_ONLY = new RegExp(`^[${WHITE}]*$`, "u");
const ANY_WHITE = new RegExp(`[${WHITE}]`, "u");
const WHITE_END = new RegExp(`[${WHITE}]+$`, "u");
const WHITE_START = new RegExp(`^[${WHITE}]`, "u");

/** Finds the ends of the sentences of a text: after full stops and their like; the last one is the end of the text. */
export function findSentenceEnds(text: string): number[] {
  const ends: number[] = [];
  let letter = -1; // where the sentence has its first letter or digit, once that is asked for
  let small: SmallText | undefined; // how the text is without capitals, once that is asked for
  for (const match of text.matchAll(SENTENCE_END)) {
    const stop = match.index + match[0].length;
    if (stop === text.length || !match[4]) break;
    if (letter < 0) letter = findLetter(text, 0);
    if (letter >= stop) continue;
    const isSmall = /\p{Lowercase}/u.test(match[4]) && ![...match[1]!].some((mark) => CERTAIN_MARKS.includes(mark));
    if (isSmall) small ??= describeSmallText(text);
    if (isSmall ? small!.isSmall && endsSmallSentence(text, match, letter, small!.endsInMark) : endsSentence(text, match, letter)) {
      ends.push(stop);
      letter = findLetter(text, stop);
    }
  }
  if (ends.length > 0 && letter === text.length) ends.pop();
  return [...ends, text.length];
}

/** Counts the sentences of a text; white space alone is none. */
export function countSentences(text: string): number {
  return WHITE_ONLY.test(text) ? 0 : findSentenceEnds(text).length;
}

/** Gives the place of the first letter or digit from `start` on, or the end of the text. */
function findLetter(text: string, start: number): number {
  const place = text.slice(start).search(LETTER_OR_DIGIT);
  return place < 0 ? text.length : start + place;
}

/** Matches a sticky pattern at a place. */
function matchAt(pattern: RegExp, text: string, place: number): RegExpExecArray | null {
  pattern.lastIndex = place;
  return pattern.exec(text);
}

/** Whether a sentence whose first letter is at `letter` ends at a match, after which more text follows. */
function endsSentence(text: string, match: RegExpExecArray, letter: number): boolean {
  const [whole, marks = "", gap = "", openers = "", following = ""] = match;
  const begin = match.index;
  const first = begin + whole.length + gap.length + openers.length;
  const before = text.slice(Math.max(0, begin - 4), begin); // room for two characters of two units each
  if (/[([{（]$/u.test(before)) return false;
  if (WESTERN_MARKS.includes(following) && WHITE_START.test(text.slice(first + 1, first + 2))) return false;

  if (!gap) return endsWithoutSpace(text, whole, marks, before, first, following);
  if (GREEK_QUESTION_MARK.includes(marks)) return GREEK_LETTER.test(before.slice(-1)) && GREEK_LETTER.test(following);
  if (matchAt(COMPANY_FORM, text, first)) return false;
  if (ELLIPSIS.test(marks)) return !hesitates(text, letter, begin, first);
  return marks !== "." || !continuesAfterStop(text, letter, begin, first);
}

/** Whether dots after the first word of a sentence are a pause in it: "Well... I see.", "She... She left." */
function hesitates(text: string, letter: number, begin: number, first: number): boolean {
  const before = text.slice(letter, begin).replace(WHITE_END, "");
  if ([...text.slice(letter, begin)].length > LONGEST_BEFORE || !before || ANY_WHITE.test(before)) return false;
  const following = matchAt(FIRST_WORD, text, first)?.[1];
  return following === "I" || following === before;
}

/** Whether a text is written without capitals, and whether it ends in a mark of a sentence. */
interface SmallText {
  isSmall: boolean;
  endsInMark: boolean;
}

function describeSmallText(text: string): SmallText {
  const last = text.replace(WHITE_END, "").replace(/["'”’»)]+$/u, "").at(-1);
  return { isSmall: !/[\p{Uppercase}\p{Lt}]/u.test(text), endsInMark: last !== undefined && MARKS.includes(last) };
}

/** Whether a sentence ends before a small letter in a text without capitals: "it rains. we stay. he goes." */
function endsSmallSentence(text: string, match: RegExpExecArray, letter: number, endsInMark: boolean): boolean {
  const [whole, marks = "", gap = "", , following = ""] = match;
  const begin = match.index;
  if (!gap || whole.length > marks.length || ELLIPSIS.test(marks)) return false;
  const previous = text.slice(Math.max(0, begin - 1), begin);
  if (/[([{（]/u.test(previous)) return false;
  if (GREEK_QUESTION_MARK.includes(marks)) return GREEK_LETTER.test(previous) && GREEK_LETTER.test(following);
  const before = cutBefore(text, letter, begin);
  const isWord = begin - letter === before.length && !ANY_WHITE.test(before);
  if (isWord && !endsInMark) return false;
  if (marks !== ".") return true;

  if (/[0-9]{3}$/u.test(before)) return true;
  const phrase = LAST_WORD.exec(before)?.[1];
  if (phrase === undefined || INITIALS.test(phrase)) return false;
  const word = phrase.slice(phrase.lastIndexOf(".") + 1).replace(WHITE_RUN, "");
  const lists = [LEADING_ABBREVIATIONS, ABBREVIATIONS, ABBREVIATIONS_BEFORE_NUMBERS, ABBREVIATIONS_IN_SMALL_LETTERS];
  return !lists.some((words) => words.has(word)) && (!ALPHABETIC.test(word) || VOWEL.test(word));
}

/** Gives the end of a sentence before its mark. */
function cutBefore(text: string, letter: number, begin: number): string {
  return [...text.slice(Math.max(letter, begin - 2 * LONGEST_BEFORE), begin)].slice(-LONGEST_BEFORE).join("");
}

/** Whether a sentence ends though no white space follows its mark. */
function endsWithoutSpace(text: string, whole: string, marks: string, before: string, first: number, following: string): boolean {
  if ([...marks].some((mark) => CERTAIN_MARKS.includes(mark))) {
    const isQuoted = whole.length > marks.length;
    return !"、，,;:".includes(following) && !(isQuoted && "とっのをにが".includes(following));
  }
  if (/[!?]$/u.test(marks) && UNSPACED_LETTER.test(before) && LETTER_OR_DIGIT.test(following)) return true;
  const word = matchAt(FIRST_WORD, text, first)?.[1] ?? "";
  return word.length > 1 && FIRST_WORDS.has(word) && /\p{Lowercase}{2}$/u.test(before);
}

/** Whether a full stop belongs to the word or the number before it. */
function continuesAfterStop(text: string, letter: number, begin: number, first: number): boolean {
  const before = cutBefore(text, letter, begin);
  if (LABEL.test(before) && begin - letter === before.length) return true;

  const following = matchAt(FIRST_WORD, text, first)?.[1] ?? "";
  const isLikelyStart = FIRST_WORDS.has(following) || "¿¡".includes(text[first]!);
  if (PLAIN_NUMBER.test(before)) return GERMAN_MONTHS.has(following) || (!isLikelyStart && ORDINAL.test(before));

  const phrase = LAST_WORD.exec(before)?.[1];
  if (phrase === undefined) return false;
  const word = phrase.slice(phrase.lastIndexOf(".") + 1).replace(WHITE_RUN, "");
  if (isListed(phrase.replace(WHITE_RUN, ""), LEADING_ABBREVIATIONS) || isListed(word, LEADING_ABBREVIATIONS)) return true;
  if (/^\p{Uppercase}$/u.test(word) && NAME_PARTICLES.has(following)) return true;
  if (matchAt(NUMBER_START, text, first) && isListed(word, ABBREVIATIONS_BEFORE_NUMBERS)) return true;
  return !isLikelyStart && (INITIALS.test(phrase) || isListed(word, ABBREVIATIONS));
}

/** Whether a word is among abbreviations, of which those with a capital are known with a capital only. */
function isListed(word: string, abbreviations: ReadonlySet<string>): boolean {
  const lower = word.toLowerCase();
  const [initial = "", ...others] = lower;
  return abbreviations.has(lower) || (word !== lower && abbreviations.has(initial.toUpperCase() + others.join("")));
}
