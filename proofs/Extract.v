(** * The canonical form as a program in OCaml

    [graph_of] makes the graph of a program with stubs, [text] writes its canonical form. canonical.ml is what Rocq makes
    of these definitions; numbers become OCaml's. main.ml reads programs, and prints which of them have equal texts.
    analyzer/verify/canonical compares that with refgraph. *)

From Stdlib Require Import Extraction ExtrOcamlBasic ExtrOcamlNatInt.
From Tasting Require Import Graph Walk Machine.

Set Extraction Output Directory ".".
Extraction "canonical.ml" text graph_of.
