(** * Graphs, and when two of them are the same

    A graph has nodes, which are numbers without a meaning. Each node has a description and an ordered list of
    references. A reference leads to a list of nodes: to none, to one, or to several candidates. Some nodes are roots:
    execution starts there. Roots are in groups, and each group has a name.

    A node is reached if it is a root, or if a reached node refers to it.

    Two graphs are isomorphic if a one-to-one relation between the reached nodes of one and the reached nodes of the
    other keeps roots, descriptions and references, each in their order. Then they differ in the numbers of their nodes
    and in what isn't reached, and in nothing else.

    The definitions up to [isomorphic] are what a reader must judge. The rest of the file proves simple facts. *)

From Stdlib Require Import List Arith Lia Bool.
Import ListNotations.
Definition node := nat.
Definition name := nat.
Definition bytes := list nat.

(** What the canonical form says of a node besides its references. [Full] has a kind, the symbols that the node defines,
    and the hash of its content. [Stub] has no content: it has the names by which a tracer knows the function. *)
Inductive description :=
| Full (kind : nat) (symbols : list name) (digest : nat)
| Stub (kind : nat) (symbols : list name) (entry : list name).
Record graph := {
  nodes : list node;                          (* all nodes, reached or not *)
  describe : node -> description;
  targets : node -> list (list node);         (* for each reference, in order: where it leads *)
  groups : list (name * list node)            (* the roots *)
}.

(** [relates R xs ys]: the lists have one length, and R holds for each pair at the same place. *)
Abbreviation relates := Forall2.
Inductive reached (g : graph) : node -> Prop :=
| reached_root : forall label xs x, In (label, xs) (groups g) -> In x xs -> reached g x
| reached_ref : forall x xs y, reached g x -> In xs (targets g x) -> In y xs -> reached g y.
Definition one_to_one (R : node -> node -> Prop) :=
  (forall x y y', R x y -> R x y' -> y = y') /\ (forall x x' y, R x y -> R x' y -> x = x').
(** Groups of roots with one name, and related nodes. *)
Definition same_root (R : node -> node -> Prop) (a b : name * list node) := fst a = fst b /\ relates R (snd a) (snd b).
Record isomorphism (g h : graph) (R : node -> node -> Prop) := {
  iso_reached : forall x y, R x y -> reached g x /\ reached h y;
  iso_left : forall x, reached g x -> exists y, R x y;
  iso_right : forall y, reached h y -> exists x, R x y;
  iso_one : one_to_one R;
  iso_roots : relates (same_root R) (groups g) (groups h);
  iso_describe : forall x y, R x y -> describe g x = describe h y;
  iso_targets : forall x y, R x y -> relates (relates R) (targets g x) (targets h y)
}.
Definition isomorphic (g h : graph) := exists R, isomorphism g h R.

(** A graph is closed if all that is reached is among its nodes. *)
Definition closed (g : graph) := forall x, reached g x -> In x (nodes g).

(** ** Facts *)
Lemma relates_flip {A B} (R : A -> B -> Prop) xs ys : relates R xs ys -> relates (fun y x => R x y) ys xs.
Proof. induction 1; constructor; auto. Qed.
Lemma relates_map {A B} (R S : A -> B -> Prop) xs ys :
  (forall x y, R x y -> S x y) -> relates R xs ys -> relates S xs ys.
Proof. intros H; induction 1; constructor; auto. Qed.
Lemma relates_nth {A B} (R : A -> B -> Prop) xs ys i x :
  relates R xs ys -> nth_error xs i = Some x -> exists y, nth_error ys i = Some y /\ R x y.
Proof.
  intros H; revert i; induction H; intros [|i] E; simpl in *; try discriminate; eauto.
  injection E; intros; subst; eauto.
Qed.
Lemma relates_length {A B} (R : A -> B -> Prop) xs ys : relates R xs ys -> length xs = length ys.
Proof. induction 1; simpl; auto. Qed.
Lemma relates_app {A B} (R : A -> B -> Prop) a b c d : relates R a b -> relates R c d -> relates R (a ++ c) (b ++ d).
Proof. intros; apply Forall2_app; auto. Qed.
Lemma relates_in {A B} (R : A -> B -> Prop) xs ys x : relates R xs ys -> In x xs -> exists y, In y ys /\ R x y.
Proof. induction 1; simpl; intros []; subst; eauto. destruct IHForall2 as (z & ? & ?); eauto. Qed.
Lemma relates_join {A B C} (P : A -> C -> Prop) (Q : B -> C -> Prop) xs ys is :
  relates P xs is -> relates Q ys is -> relates (fun x y => exists i, P x i /\ Q y i) xs ys.
Proof. intros H; revert ys; induction H; intros ys K; inversion K; subst; constructor; eauto. Qed.
Lemma relates_same {A} (R : A -> A -> Prop) l : (forall x, In x l -> R x x) -> relates R l l.
Proof. induction l; intros H; constructor; simpl in *; auto. Qed.
Lemma relates_flip_targets {A} (R : A -> A -> Prop) xs ys : relates (relates R) xs ys -> relates (relates (fun y x => R x y)) ys xs.
Proof. intros H; eapply relates_map; [|apply relates_flip, H]. intros; apply relates_flip; auto. Qed.
Lemma relates_flip_roots R xs ys : relates (same_root R) xs ys -> relates (same_root (fun y x => R x y)) ys xs.
Proof. intros H; eapply relates_map; [|apply relates_flip, H]. intros a b [E F]; split; [|apply relates_flip]; auto. Qed.
(** If roots and references are related, each reached node is related to one. *)
Lemma reached_related g h R : relates (same_root R) (groups g) (groups h) ->
  (forall x y, R x y -> relates (relates R) (targets g x) (targets h y)) -> forall x, reached g x -> exists y, R x y.
Proof.
  intros Hr Ht; induction 1 as [label xs x H Hx|x xs z _ [y Hy] H Hz].
  - destruct (relates_in _ _ _ _ Hr H) as (b & _ & _ & K). destruct (relates_in _ _ _ _ K Hx) as (y & _ & ?); eauto.
  - destruct (relates_in _ _ _ _ (Ht _ _ Hy) H) as (b & _ & K). destruct (relates_in _ _ _ _ K Hz) as (? & _ & ?); eauto.
Qed.
(** Graphs that agree in their roots, and in all nodes that one of them reaches, are isomorphic. *)
Lemma isomorphic_if_agree g h : groups g = groups h ->
  (forall x, reached g x -> describe g x = describe h x /\ targets g x = targets h x) -> isomorphic g h.
Proof.
  intros Hg Ha.
  assert (Roots : relates (same_root (fun x y => x = y /\ reached g x)) (groups g) (groups h)).
  { rewrite <- Hg; apply relates_same; intros [label xs] Hx; split; auto. apply relates_same; split; auto.
    eapply reached_root; eauto. }
  assert (Refs : forall x y, x = y /\ reached g x ->
    relates (relates (fun x y => x = y /\ reached g x)) (targets g x) (targets h y)).
  { intros x y [<- H]; destruct (Ha x H) as [_ <-]. apply relates_same; intros xs Hx; apply relates_same; split; auto.
    eapply reached_ref; eauto. }
  pose proof (reached_related h g _ (relates_flip_roots _ _ _ Roots)
    (fun x y H => relates_flip_targets _ _ _ (Refs y x H))) as Back.
  exists (fun x y => x = y /\ reached g x); split; auto; [|eauto| |].
  - intros x y [<- H]; split; auto. destruct (reached_related g h _ Roots Refs x H) as (y & <- & _).
    clear - H Ha Hg. induction H as [label xs x H Hx|x xs y K IH H Hy].
    + rewrite Hg in H; eapply reached_root; eauto.
    + eapply reached_ref; [exact IH| |eauto]. destruct (Ha x K) as [_ <-]; auto.
  - split; intros x y z [] []; congruence.
  - intros x y [<- H]; apply Ha; auto.
Qed.
