"""Sentence pairs about a hospital, a subject that the demo's model never met: two pages of the book train on them."""

import random
from itertools import product

WHO = {
    "The patient": "El paciente",
    "The nurse": "La enfermera",
    "The surgeon": "El cirujano",
    "The midwife": "La comadrona",
    "The pharmacist": "El farmacéutico",
    "The dentist": "La dentista",
    "The paramedic": "El paramédico",
    "The therapist": "La terapeuta",
}
WHAT = {
    "has a fever": "tiene fiebre",
    "has a rash": "tiene un sarpullido",
    "needs a vaccine": "necesita una vacuna",
    "needs an injection": "necesita una inyección",
    "asked for a prescription": "pidió una receta",
    "changed the bandage": "cambió el vendaje",
    "measured the pulse": "midió el pulso",
    "washed the wound": "lavó la herida",
    "took two tablets": "tomó dos pastillas",
    "broke a rib": "se rompió una costilla",
}
WHEN = {
    "": "",
    " again": " otra vez",
    " at night": " por la noche",
    " on Monday": " el lunes",
    " after the surgery": " después de la operación",
    " before the X-ray": " antes de la radiografía",
}


def make_pairs() -> list[tuple[str, str]]:
    """Make every sentence of the three lists with its translation, in an order of their own."""
    pairs = [(f"{a} {b}{c}.", f"{WHO[a]} {WHAT[b]}{WHEN[c]}.") for a, b, c in product(WHO, WHAT, WHEN)]
    random.Random(1).shuffle(pairs)
    return pairs
