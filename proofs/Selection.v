(** * Deselection over several versions, and what a tracer collects

    Mansky and Gunter (2020) define when test selection is safe, and prove it for Ekstazi. This file has their
    definition, and instances of it for keys and for traces (theorem (e)).

    A test was executed once. An edit deselects it if its key is as before; the next edit is compared with the version
    before that, and so on. Nobody executes the test in between. [several_steps] says that the last version still has
    the recorded outcome. [key_safe] and [trace_safe] say that keys and keys with stubs are safe selections.

    A tracer has a breakpoint at the beginning of each function. It sees the first entry of a function and nothing else.
    Naively, it would have to see every function that any step executes or reads. [smart_is_naive] says that both
    collect the same if no code is read as data. [collected] says that what the tracer collects is what [trace_safe]
    needs: the names of functions that weren't entered. *)

From Stdlib Require Import List Arith Lia Bool.
From Tasting Require Import Graph Walk Machine Safety.
Import ListNotations.
(** ** Safe selections *)
Record selection (version outcome : Type) := {
  out : version -> outcome -> Prop;                  (* what executions can result in *)
  equiv : outcome -> outcome -> Prop;
  deselect : version -> outcome -> version -> Prop   (* with this outcome, the test isn't executed for that version *)
}.
Arguments out {version outcome}. Arguments equiv {version outcome}. Arguments deselect {version outcome}.
Record safe {V O} (s : selection V O) : Prop := {
  existence : forall v o v', out s v o -> deselect s v o v' -> exists o', out s v' o' /\ equiv s o o';
  equiv_refl : forall o, equiv s o o;
  equiv_sym : forall o o', equiv s o o' -> equiv s o' o;
  equiv_trans : forall o o' o'', equiv s o o' -> equiv s o' o'' -> equiv s o o'';
  equiv_deselect : forall v o o' v', equiv s o o' -> deselect s v o v' -> deselect s v o' v'
}.

(** [kept s o v vs w]: from v over vs to w, each version deselects the test with outcome o. *)
Inductive kept {V O} (s : selection V O) (o : O) : V -> list V -> V -> Prop :=
| kept_here : forall v, kept s o v [] v
| kept_step : forall v v' vs w, deselect s v o v' -> kept s o v' vs w -> kept s o v (v' :: vs) w.

Theorem several_steps {V O} (s : selection V O) : safe s ->
  forall o v vs w, kept s o v vs w -> out s v o -> exists o', out s w o' /\ equiv s o o'.
Proof.
  intros H o v vs w K. assert (G : forall o1, equiv s o o1 -> out s v o1 -> exists o', out s w o' /\ equiv s o o').
  { induction K as [v|v v' vs w D K IH]; intros o1 E1 Ho; eauto.
    destruct (existence s H v o1 v' Ho) as (o2 & A & B); [eapply equiv_deselect; eauto|].
    apply (IH o2); auto. eapply equiv_trans; eauto. }
  intros; apply (G o); auto. apply equiv_refl; auto.
Qed.
Section Instances.
Variable hash : list nat -> nat.
Hypothesis collision_free : injective hash.
Variable M : machine.

(** A version of a test is a program and its inputs. *)
Definition version := (program * list nat)%type.
Definition by_key : selection version (list nat * status) :=
  {| out := fun v o => outcome M (fst v) (snd v) o; equiv := eq;
     deselect := fun v _ v' => key hash (fst v) no_stubs (snd v) = key hash (fst v') no_stubs (snd v') |}.

Theorem key_safe : safe by_key.
Proof.
  split; simpl; intros; subst; auto.
  exists o; split; auto. apply (proj2 (equal_keys hash collision_free M _ _ _ _ H0)); auto.
Qed.

(** ** Traces *)
Definition member (n : nat) (l : list nat) : bool := existsb (Nat.eqb n) l.
Lemma member_in n l : member n l = true <-> In n l.
Proof.
  unfold member; rewrite existsb_exists; split; [intros (m & A & B)|intros H; exists n; rewrite Nat.eqb_refl; auto].
  apply Nat.eqb_eq in B; subst; auto.
Qed.
Definition entry_of (p : program) (x : node) : list name := match find p x with Some c => entry c | None => [] end.
Definition is_function (p : program) (x : node) : bool := match entry_of p x with [] => false | _ => true end.

(** A function is a stub if all its names are idle. *)
Definition stub_of (p : program) (idle : list name) (x : node) : bool :=
  is_function p x && forallb (fun n => member n idle) (entry_of p x).

(** A trace is an outcome and the names of functions that weren't entered. *)
Definition by_trace : selection version (list nat * status * list name) := {|
  out := fun v o => exists n es s, run M (fst v) (snd v) n es s /\ ended s <> Running /\
    observation s = fst o /\ clean (stub_of (fst v) (snd o)) es;
  equiv := eq;
  deselect := fun v o v' =>
    key hash (fst v) (stub_of (fst v) (snd o)) (snd v) = key hash (fst v') (stub_of (fst v') (snd o)) (snd v')
|}.
Theorem trace_safe : safe by_trace.
Proof.
  split; simpl; intros; subst; auto. destruct H as (n & es & s & H & N & E & C); exists o; split; auto.
  destruct (traces_exist hash collision_free M _ _ _ _ _ _ _ _ _ H0 H C) as (es' & t & A & B & F).
  exists n, es', t; repeat split; auto; [|congruence]. unfold observation in *; congruence.
Qed.
(** With determinism: no other outcome. *)
Theorem several_traces o v vs w : kept by_trace o v vs w -> out by_trace v o -> deterministic M (fst v) (snd v) ->
  forall o', outcome M (fst w) (snd w) o' <-> o' = fst o.
Proof.
  intros K (n & es & s & H & N & E & C) D.
  assert (G : deselect by_trace v o w) by (clear - K; induction K; simpl in *; congruence).
  destruct (traces hash collision_free M _ _ _ _ _ _ _ _ _ G D H N C) as [_ W]. rewrite <- E; auto.
Qed.

(** ** Collectors *)
(** A collector has the functions that it hasn't collected yet, and removes one by an event. *)
Definition smart (e : event) (x : node) : bool := match e with Entered y => x =? y | _ => false end.
Definition naive (e : event) (x : node) : bool := match e with Entered y | Executed y | Read y => x =? y end.
Definition collect (by_event : event -> node -> bool) (es : list event) (left : list node) : list node :=
  fold_left (fun left e => filter (fun x => negb (by_event e x)) left) es left.
Definition functions (p : program) : list node := filter (is_function p) (map fst (components p)).
Definition reads_no_code (p : program) (es : list event) := forall x, In (Read x) es -> is_function p x = false.
Lemma collect_in b es x : forall l, In x (collect b es l) <-> In x l /\ forall e, In e es -> b e x = false.
Proof.
  induction es as [|e es IH]; simpl; intros l; [tauto|].
  unfold collect in *; simpl; rewrite IH, filter_In, negb_true_iff; intuition subst; auto.
Qed.
Lemma collect_ext b c es l : (forall e x, In e es -> In x l -> b e x = true -> exists e', In e' es /\ c e' x = true) ->
  (forall e x, b e x = false -> c e x = false) -> forall x, In x (collect b es l) <-> In x (collect c es l).
Proof.
  intros A B x; rewrite !collect_in; split; intros [H K]; split; auto.
  intros e He; destruct (b e x) eqn:F; auto. destruct (A e x He H F) as (e' & G & F'). rewrite K in F'; auto.
Qed.
Lemma perform_executes p x a s s' es y : perform M p x a s = (s', es) -> ~ In (Executed y) es.
Proof.
  assert (V : forall b o v e, value_at M p s b o = (v, e) -> ~ In (Executed y) e).
  { intros b o v e; unfold value_at; destruct (stored _ _ _), b; try destruct (find p x0); intros E; injection E;
      intros <- _ W; simpl in W; intuition discriminate. }
  destruct a; simpl; try destruct (register s _) as [|[] []]; try destruct (value_at M p s _ _) eqn:W;
    intros E; injection E; intros <- _; eauto; intros []; try discriminate; auto.
Qed.
(** Who executes was entered before. *)
Lemma executed_entered p i n es s : run M p i n es s ->
  (forall f, In f (stack s) -> In (Entered (fst f)) es) /\ (forall x, In (Executed x) es -> In (Entered x) es).
Proof.
  induction 1 as [|n es s e s' _ [A B] Hs]; [split; intros ? []|].
  destruct Hs as [x rest _ F _|_ F _|x place frames c a s' e _ F _ _ E].
  - split; [intros f [<-|[]]|intros y]; simpl; rewrite !in_app_iff; simpl; auto. intros [H|[H|[]]]; [auto|discriminate H].
  - rewrite app_nil_r; split; auto.
  - assert (X : In (Entered x) es) by (apply (A (x, place)); rewrite F; simpl; auto).
    split; [intros f Hf|intros y]; rewrite !in_app_iff; simpl.
    + destruct (perform_stack _ _ _ _ _ _ _ _ E Hf) as [H|[->|H]]; auto.
    + intros [H|[H|H]]; [auto|injection H; intros ->; auto|]. exfalso; eapply perform_executes; eauto.
Qed.
Theorem smart_is_naive p i n es s : run M p i n es s -> reads_no_code p es ->
  forall x, In x (collect smart es (functions p)) <-> In x (collect naive es (functions p)).
Proof.
  intros H N x; symmetry; apply collect_ext; [|destruct e; simpl; auto].
  intros e y He Hy K; destruct e as [z|z|z]; simpl in K; apply Nat.eqb_eq in K; subst z.
  - exists (Entered y); simpl; rewrite Nat.eqb_refl; auto.
  - exists (Entered y); simpl; rewrite Nat.eqb_refl; split; auto. eapply executed_entered; eauto.
  - apply filter_In in Hy as [_ Hy]; rewrite N in Hy; auto; discriminate.
Qed.
(** A name is idle if all functions with the name are. *)
Definition frontier (p : program) (left : list node) : list name :=
  filter (fun n => forallb (fun x => negb (member n (entry_of p x)) || member x left) (functions p))
    (flat_map (entry_of p) (functions p)).
Theorem collected p i n es s : run M p i n es s -> ended s <> Running -> reads_no_code p es ->
  out by_trace (p, i) (observation s, frontier p (collect smart es (functions p))).
Proof.
  intros H N C; exists n, es, s; repeat split; auto; simpl.
  apply (proj2 (Forall_forall _ _)); intros [x|x|x] Hx; auto; unfold stub_of; [|rewrite (C x Hx); auto].
  destruct (is_function p x) eqn:Fx; simpl; auto. destruct (forallb _ _) eqn:Fa; auto. exfalso.
  assert (Nm : exists m, In m (entry_of p x)) by (unfold is_function in Fx; destruct (entry_of p x); [discriminate|simpl; eauto]).
  destruct Nm as (m & Hm). rewrite forallb_forall in Fa. pose proof (Fa m Hm) as K.
  apply member_in in K; unfold frontier in K; apply filter_In in K as [_ K]; rewrite forallb_forall in K.
  assert (Hf : In x (functions p)).
  { apply filter_In; split; auto. unfold is_function, entry_of in Fx; destruct (find p x) eqn:E; [|discriminate].
    eapply find_in_nodes; eauto. }
  specialize (K x Hf); apply member_in in Hm; rewrite Hm in K; simpl in K.
  apply member_in, collect_in in K as [_ K]. specialize (K _ Hx); simpl in K; rewrite Nat.eqb_refl in K; discriminate.
Qed.
End Instances.
