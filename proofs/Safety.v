(** * Equal keys, equal outcomes

    Theorem [equal_keys] (b): two programs with equal keys have the same observations after any number of steps, so
    the same outcomes. The programs may be any two. If one of them isn't deterministic, both have the same set of
    outcomes.

    Theorem [unreached] (c): programs that agree in what one of them reaches have equal keys. Its corollary
    [edit_unreached] says it for one component that is changed, added or removed.

    Theorem [traces] (d): some functions of two programs are stubs, and the keys with stubs are equal. The first program
    is deterministic, and its execution enters no stub and reads none. Then no execution of the other program does, and
    both programs have the same outcome. [traces_exist] is what remains without determinism: the other program has an
    execution with the same outcome, and maybe others.

    Why they hold. Equal keys are equal texts, because hashes are injective. Equal texts are isomorphic graphs
    (Walk.v). States of both programs match if they are equal up to the isomorphism. Then both can take the same step:
    the executing components have equal content, see the same, and refer to related things. So states go on to match.

    The one assumption is that hashes don't collide: [injective]. It is a premise of each theorem, not an axiom. *)

From Stdlib Require Import List Arith Lia Bool.
From Tasting Require Import Graph Walk Machine.
Import ListNotations.
Definition injective (hash : list nat -> nat) := forall a b, hash a = hash b -> a = b.

(** Events that concern no stub. A stub may not be entered, nor may its content be read. *)
Definition clean (stub : node -> bool) : list event -> Prop :=
  Forall (fun e => match e with Entered x | Read x => stub x = false | Executed _ => True end).
Lemma clean_entered stub es x : clean stub es -> In (Entered x) es -> stub x = false.
Proof. intros C H; apply (proj1 (Forall_forall _ _) C) in H; auto. Qed.

(** ** Reached components are linked *)
Lemma find_in_nodes l x c : find_in l x = Some c -> In x (map fst l).
Proof. induction l as [|[y d] l IH]; simpl; [discriminate|]. destruct (Nat.eqb_spec x y); subst; auto. Qed.
Lemma linked_find p x : linked p x = true -> exists c, find p x = Some c.
Proof. unfold linked; destruct (find p x); eauto; discriminate. Qed.
Section Hashed.
Variable hash : list nat -> nat.
Lemma reached_linked p stub x : reached (graph_of hash p stub) x -> linked p x = true.
Proof.
  induction 1 as [label xs x H Hx|x xs y _ _ H Hy]; simpl in *.
  - apply in_map_iff in H as (? & E & _); injection E; intros <- _. apply filter_In in Hx; tauto.
  - destruct (stub x); [inversion H|]. unfold targets_of in H; destruct (find p x); [|inversion H].
    apply in_map_iff in H as (? & <- & _). apply filter_In in Hy; tauto.
Qed.
Lemma closed_graph_of p stub : closed (graph_of hash p stub).
Proof. intros x H; apply reached_linked, linked_find in H as (c & H). eapply find_in_nodes; eauto. Qed.

(** ** Matching states *)
Hypothesis collision_free : injective hash.
Variable M : machine.
Section Matching.
Variables (p q : program) (S T : node -> bool) (R : node -> node -> Prop).
Hypothesis iso : isomorphism (graph_of hash p S) (graph_of hash q T) R.
Inductive same_base_as : base -> base -> Prop :=
| same_component : forall x y, R x y -> same_base_as (In_component x) (In_component y)
| same_heap : forall k, same_base_as (In_heap k) (In_heap k).
Inductive same_value : value -> value -> Prop :=
| same_number : forall k, same_value (Number k) (Number k)
| same_pointer : forall b b' o, same_base_as b b' -> same_value (Pointer b o) (Pointer b' o).
Inductive same_event : event -> event -> Prop :=
| same_entered : forall x y, R x y -> same_event (Entered x) (Entered y)
| same_executed : forall x y, R x y -> same_event (Executed x) (Executed y)
| same_read : forall x y, R x y -> same_event (Read x) (Read y).
Definition same_cell (c d : base * nat * value) :=
  same_base_as (fst (fst c)) (fst (fst d)) /\ snd (fst c) = snd (fst d) /\ same_value (snd c) (snd d).
Definition same_frame (f g : node * nat) := R (fst f) (fst g) /\ snd f = snd g.
Record matching (s t : state) : Prop := {
  m_registers : relates same_value (registers s) (registers t);
  m_memory : relates same_cell (memory s) (memory t);
  m_allocated : allocated s = allocated t;
  m_input : input s = input t;
  m_output : output s = output t;
  m_stack : relates same_frame (stack s) (stack t);
  m_pending : relates R (pending s) (pending t);
  m_ended : ended s = ended t
}.

(** No stub is on the stack. *)
Definition live (s : state) := forall f, In f (stack s) -> S (fst f) = false.
Lemma related_found x y : R x y -> exists c d, find p x = Some c /\ find q y = Some d /\ S x = T y /\
  (S x = false -> content c = content d /\ relates (relates R) (targets_of p x) (targets_of q y)).
Proof.
  intros H; destruct (iso_reached _ _ _ iso x y H) as [A B].
  apply reached_linked, linked_find in A as (c & A); apply reached_linked, linked_find in B as (d & B).
  exists c, d; repeat split; auto; pose proof (iso_describe _ _ _ iso x y H) as E; simpl in E;
    unfold describe_of in E; rewrite A, B in E.
  - destruct (S x), (T y); auto; discriminate.
  - rewrite H0 in E; destruct (T y); [discriminate|]. injection E; intros E' _ _; auto.
  - pose proof (iso_targets _ _ _ iso x y H) as K; simpl in K; rewrite H0 in *. destruct (T y); [discriminate|]; auto.
Qed.
Lemma same_base_related a a' b b' : same_base_as a a' -> same_base_as b b' -> same_base a b = same_base a' b'.
Proof.
  destruct (iso_one _ _ _ iso) as [F G]. destruct 1, 1; simpl; auto.
  destruct (Nat.eqb_spec x x0), (Nat.eqb_spec y y0); subst; auto; exfalso; eauto.
Qed.
Lemma look_related l m : relates same_value l m -> look l = look m.
Proof.
  intros H; unfold look. assert (F : forall b b', same_base_as b b' -> first b l = first b' m).
  { intros b b' Hb; induction H as [|v w l m Hv H IH]; simpl; auto.
    destruct Hv; [rewrite IH; auto|]. rewrite (same_base_related b b' b0 b'0), IH; auto. }
  assert (G : forall k k', relates same_value k k' ->
    map (fun v => match v with Number n => Sees_number n | Pointer b o => Sees_pointer (first b l) o end) k =
    map (fun v => match v with Number n => Sees_number n | Pointer b o => Sees_pointer (first b m) o end) k').
  { induction 1 as [|v w k k' Hv Hk IH]; simpl; auto.
    rewrite IH; destruct Hv as [|b b' o Hb]; auto. rewrite (F b b'); auto. }
  auto.
Qed.
Lemma register_related s t r : matching s t -> same_value (register s r) (register t r).
Proof.
  intros H; unfold register. pose proof (m_registers _ _ H) as K; revert r.
  clear H; induction K; intros [|r]; simpl; auto; constructor.
Qed.
Lemma replace_related l m r v w : relates same_value l m -> same_value v w ->
  relates same_value (replace l r v) (replace m r w).
Proof. intros H K; revert r; induction H; intros [|r]; simpl; auto. Qed.
Lemma nth_error_related {A B} (Q : A -> B -> Prop) l m i : relates Q l m ->
  match nth_error l i, nth_error m i with Some x, Some y => Q x y | None, None => True | _, _ => False end.
Proof. intros H; revert i; induction H; intros [|i]; simpl; auto. apply IHForall2. Qed.
Lemma pointer_related l m i : relates R l m ->
  forall o, same_value (pointer_to (nth_error l i) o) (pointer_to (nth_error m i) o).
Proof.
  intros H o; pose proof (nth_error_related R l m i H).
  destruct (nth_error l i), (nth_error m i); simpl; try tauto; constructor; constructor; auto.
Qed.
Lemma target_related x y i j o : R x y -> S x = false ->
  same_value (pointer_to (target p x i j) o) (pointer_to (target q y i j) o).
Proof.
  intros H Hs; destruct (related_found x y H) as (c & d & _ & _ & _ & K). destruct (K Hs) as [_ Ht].
  unfold target; apply pointer_related. clear K; revert i; induction Ht; intros [|i]; simpl; auto.
Qed.
Lemma entries_related : relates R (entries p) (entries q).
Proof.
  unfold entries; pose proof (iso_roots _ _ _ iso) as H; simpl in H.
  induction H as [|a b l m [_ H] _ IH]; simpl; auto. apply relates_app; auto.
Qed.
Lemma stored_related s t b b' o : matching s t -> same_base_as b b' ->
  match stored (memory s) b o, stored (memory t) b' o with
  | Some v, Some w => same_value v w | None, None => True | _, _ => False end.
Proof.
  intros H Hb; pose proof (m_memory _ _ H) as K; clear H.
  induction K as [|[[c i] v] [[c' i'] v'] l m (A & B & C) _ IH]; simpl in *; auto.
  subst; rewrite (same_base_related b b' c c'); auto. destruct (same_base b' c' && (o =? i')); auto.
Qed.
Lemma value_related s t b b' o v es : matching s t -> same_base_as b b' -> value_at M p s b o = (v, es) ->
  exists w es', value_at M q t b' o = (w, es') /\ relates same_event es es' /\ (clean S es -> same_value v w).
Proof.
  intros H Hb; unfold value_at; pose proof (stored_related s t b b' o H Hb) as K.
  destruct (stored (memory s) b o), (stored (memory t) b' o); try tauto.
  - intros E; injection E; intros <- <-; eauto.
  - destruct Hb as [x y Hx|k].
    + destruct (related_found x y Hx) as (c & d & A & B & C & D); rewrite A, B.
      intros E; injection E; intros <- <-; eexists _, _; split; [reflexivity|]. split; [repeat constructor; auto|].
      intros F; assert (Hs : S x = false) by (inversion F; auto).
      destruct (D Hs) as [-> _]. destruct (initial M (content d) o); [constructor|apply target_related; auto].
    + intros E; injection E; intros <- <-; eexists _, _; repeat split; repeat constructor.
Qed.
Ltac fields := destruct 1; constructor; simpl; auto.
Lemma goto_related s t x y next : matching s t -> R x y -> matching (goto s x next) (goto t y next).
Proof. intros H Hx; revert H; fields; repeat constructor; auto. destruct m_stack0; simpl; auto. Qed.
Lemma put_related s t r v w : matching s t -> same_value v w -> matching (put s r v) (put t r w).
Proof. intros H Hv; revert H; fields. apply replace_related; auto. Qed.
Lemma finish_related s t e : matching s t -> matching (finish s e) (finish t e).
Proof. fields. Qed.
Lemma tl_related {A B} (Q : A -> B -> Prop) l m : relates Q l m -> relates Q (tl l) (tl m).
Proof. destruct 1; simpl; auto. Qed.
(** Related components perform the same action alike. *)
Lemma perform_related s t x y a s' es : matching s t -> R x y -> S x = false -> perform M p x a s = (s', es) ->
  exists t' es', perform M q y a t = (t', es') /\ relates same_event es es' /\ (clean S es -> matching s' t').
Proof.
  intros H Hx Hs. assert (easy : forall u u', matching u u' -> (u, [] : list event) = (s', es) ->
    exists t' es', (u', []) = (t', es') /\ relates same_event es es' /\ (clean S es -> matching s' t')).
  { intros u u' K E; injection E; intros <- <-; eexists _, _; split; [reflexivity|auto]. }
  destruct a; simpl.
  - apply easy, goto_related; auto. apply put_related; auto; constructor.
  - apply easy, goto_related; auto. apply put_related; auto. apply register_related; auto.
  - destruct (register_related s t from H); apply easy; [apply finish_related; auto|].
    apply goto_related; auto. apply put_related; auto; constructor; auto.
  - apply easy, goto_related; auto. apply put_related; auto. apply target_related; auto.
  - apply easy, goto_related; auto. apply put_related; auto. apply pointer_related, entries_related.
  - destruct (register_related s t from H) as [|b b' o Hb]; [apply easy, finish_related; auto|].
    destruct (value_at M p s b o) as [v e] eqn:V.
    destruct (value_related s t b b' o v e H Hb V) as (w & e' & W & He & Hv); rewrite W.
    intros E; injection E; intros <- <-; eexists _, _; split; [reflexivity|]. split; auto.
    intros C; apply goto_related; auto. apply put_related; auto.
  - pose proof (register_related s t r H) as K. destruct (register_related s t to H) as [|b b' o Hb];
      apply easy; [apply finish_related; auto|]. apply goto_related; auto.
    revert H; fields. constructor; auto. repeat split; auto.
  - apply easy, goto_related; auto. rewrite (m_allocated _ _ H). apply put_related; [|constructor; constructor].
    revert H; fields.
  - apply easy, goto_related; auto. rewrite (m_input _ _ H). apply put_related; [|constructor]. revert H; fields.
  - apply easy, goto_related; auto. revert H; fields. congruence.
  - destruct (register_related s t r H) as [|b b' o Hb]; [apply easy, finish_related; auto|].
    destruct Hb as [x' y' Hx'|k]; [|apply easy, finish_related; auto]. destruct o; [|apply easy, finish_related; auto].
    intros E; injection E; intros <- <-; eexists _, _; split; [reflexivity|]. split; [repeat constructor; auto|].
    intros _; revert H; fields. repeat constructor; auto. apply tl_related; auto.
  - apply easy. revert H; fields. apply tl_related; auto.
  - apply easy, finish_related; auto.
Qed.
(** The stack holds what was there, the executing component, and what is entered. *)
Lemma perform_stack s x a s' es f : perform M p x a s = (s', es) -> In f (stack s') ->
  In f (stack s) \/ fst f = x \/ In (Entered (fst f)) es.
Proof.
  assert (K : forall l : list (node * nat), In f (tl l) -> In f l) by (intros []; simpl; auto). destruct a; simpl;
    repeat match goal with | |- context [match ?e with _ => _ end] => destruct e; simpl
    | |- _ = _ -> _ => intros E; injection E; intros <- <-; simpl; clear E end; intuition subst; simpl; auto.
Qed.
Lemma step_related s t es s' : matching s t -> live s -> step M p s es s' ->
  exists es' t', step M q t es' t' /\ relates same_event es es' /\ (clean S es -> matching s' t' /\ live s').
Proof.
  intros H L [x rest A B C|A B C|x place frames c a s0 e A B C D E].
  - pose proof (m_ended _ _ H); pose proof (m_stack _ _ H) as K; pose proof (m_pending _ _ H) as P.
    rewrite B in K; inversion K; rewrite C in P; inversion P; subst. eexists _, _; split; [eapply step_root; eauto; congruence|].
    split; [repeat constructor; auto|]. intros Cl; split.
    + destruct H; constructor; simpl; auto. repeat constructor; auto.
    + intros f [<-|[]]; inversion Cl; auto.
  - pose proof (m_ended _ _ H); pose proof (m_stack _ _ H) as K; pose proof (m_pending _ _ H) as P.
    rewrite B in K; inversion K; rewrite C in P; inversion P; subst. eexists _, _; split; [apply step_end; auto; congruence|].
    split; [constructor|]. intros _; split; [apply finish_related; auto|]. intros f; simpl; rewrite B; intros [].
  - pose proof (m_ended _ _ H); pose proof (m_stack _ _ H) as K.
    rewrite B in K; inversion K as [|f [y place'] ? frames' [Hx Hp]]; subst; simpl in *; subst.
    assert (Hs : S x = false) by (apply (L (x, place')); rewrite B; simpl; auto).
    destruct (related_found x y Hx) as (c' & d & F & G & _ & I).
    assert (c' = c) by congruence; subst c'. destruct (I Hs) as [Ec _].
    destruct (perform_related s t x y a s0 e H Hx Hs E) as (t' & es' & Q & He & Hm).
    exists (Executed y :: es'), t'; split; [|split; [|intros Cl; split]].
    + eapply step_act; eauto; try congruence. rewrite <- Ec, <- (look_related _ _ (m_registers _ _ H)); auto.
    + constructor; auto; constructor; auto.
    + apply Hm; inversion Cl; auto.
    + intros f Hf; destruct (perform_stack _ _ _ _ _ _ E Hf) as [W|[->|W]]; auto. inversion Cl; subst.
      eapply clean_entered; eauto.
Qed.
Lemma order_related : relates R (order M p) (order M q).
Proof.
  unfold order.
  assert (E : map (fun g => (fst g, length (snd g))) (roots_of p) = map (fun g => (fst g, length (snd g))) (roots_of q)).
  { pose proof (iso_roots _ _ _ iso) as H; simpl in H.
    induction H as [|a b l m [E H] _ IH]; simpl; auto. rewrite E, IH, (relates_length _ _ _ H); auto. }
  rewrite E; clear E. induction (schedule M _) as [|i l IH]; simpl; auto. apply relates_app; auto.
  pose proof (nth_error_related R _ _ i entries_related).
  destruct (nth_error (entries p) i), (nth_error (entries q) i); simpl; try tauto; auto.
Qed.
Lemma start_related inputs : matching (initial_state M p inputs) (initial_state M q inputs) /\ live (initial_state M p inputs).
Proof.
  split; [|intros f []]. constructor; simpl; auto.
  - induction (width M); simpl; constructor; auto; constructor.
  - apply order_related.
Qed.
(** An execution of p that concerns no stub has a matching execution of q. *)
Lemma run_related inputs n es s : run M p inputs n es s -> clean S es ->
  exists es' t, run M q inputs n es' t /\ relates same_event es es' /\ matching s t /\ live s.
Proof.
  induction 1 as [|n es s e s' H IH Hs].
  - intros _; destruct (start_related inputs); eexists _, _; split; [constructor|]; auto.
  - intros C; apply Forall_app in C as [C C']. destruct (IH C) as (es' & t & Q & He & Hm & Hl).
    destruct (step_related s t e s' Hm Hl Hs) as (e' & t' & Q' & He' & K). destruct (K C') as [Hm' Hl'].
    exists (es' ++ e'), t'; split; [econstructor; eauto|]; split; [apply relates_app|]; auto.
Qed.
Lemma clean_related es es' : relates same_event es es' -> (clean S es <-> clean T es').
Proof.
  induction 1 as [|? ? ? ? [x y H|x y H|x y H] _ IH]; [split; constructor| | |];
    destruct (related_found x y H) as (c & d & _ & _ & E & _); split; intros C; inversion C; subst; constructor;
    try apply IH; auto; congruence.
Qed.
Lemma matching_observation s t : matching s t -> observation s = observation t.
Proof. intros H; unfold observation; rewrite (m_output _ _ H), (m_ended _ _ H); auto. Qed.
End Matching.
Lemma isomorphism_of_keys p q S T i j : key hash p S i = key hash q T j ->
  i = j /\ exists R, isomorphism (graph_of hash p S) (graph_of hash q T) R.
Proof.
  unfold key; intros E; apply collision_free in E; injection E; intros E1 E2.
  apply collision_free in E1, E2; split; auto. apply canonical; auto using closed_graph_of.
Qed.

(** ** Theorem (b), and (d) without determinism *)
Theorem traces_exist p q S T i j n es s : key hash p S i = key hash q T j -> run M p i n es s -> clean S es ->
  exists es' t, run M q j n es' t /\ clean T es' /\ observation s = observation t.
Proof.
  intros E H C; apply isomorphism_of_keys in E as (<- & R & I).
  destruct (run_related p q _ _ R I i n es s H C) as (es' & t & K & He & Hm & _).
  exists es', t; repeat split; [auto|apply (clean_related p q S T R I es es' He); auto|eapply matching_observation; eauto].
Qed.
Theorem equal_keys p q i j : key hash p no_stubs i = key hash q no_stubs j ->
  (forall n o, observed M p i n o <-> observed M q j n o) /\ (forall o, outcome M p i o <-> outcome M q j o).
Proof.
  intros E. assert (A : forall p q i j, key hash p no_stubs i = key hash q no_stubs j ->
    forall n o, observed M p i n o -> observed M q j n o).
  { clear p q i j E; intros p q i j E n o (es & s & H & <-). destruct (traces_exist p q _ _ i j n es s E H) as (es' & t & K & _ & O).
    - apply Forall_forall; intros []; auto.
    - exists es', t; auto. }
  assert (B : forall n o, observed M p i n o <-> observed M q j n o) by (split; apply A; auto).
  split; auto. intros o; unfold outcome; split; intros [H [n K]]; split; auto; exists n; apply B; auto.
Qed.

(** ** Theorem (d) *)
(** If no execution of p concerns a stub, then to each one of q there is a matching one of p. *)
Lemma all_traces p q S T i R : isomorphism (graph_of hash q T) (graph_of hash p S) R ->
  (forall n es s, run M p i n es s -> clean S es) ->
  forall n es' t, run M q i n es' t ->
  exists es s, run M p i n es s /\ relates (same_event R) es' es /\ matching R t s /\ live T t.
Proof.
  intros I C n es' t; induction 1 as [|n es' t e' t' H IH Ht].
  - destruct (start_related q p T S R I i); eexists _, _; split; [constructor|]; auto.
  - destruct IH as (es & s & Hr & He & Hm & Hl).
    destruct (step_related q p T S R I t s e' t' Hm Hl Ht) as (e & s' & Hs & He' & K).
    assert (Hr' : run M p i (Datatypes.S n) (es ++ e) s') by (econstructor; eauto).
    pose proof (C _ _ _ Hr') as Ce; apply Forall_app in Ce as [_ Ce].
    pose proof (proj2 (clean_related q p T S R I e' e He') Ce) as Ce'.
    destruct (K Ce') as [Hm' Hl']. exists (es ++ e), s'; split; [auto|split; [apply relates_app|]; auto].
Qed.
Lemma ended_stops p i n es s e s' : run M p i n es s -> ended s <> Running -> ~ step M p s e s'.
Proof. intros _ N H; destruct H; congruence. Qed.
Lemma run_prefix p i n es s : run M p i n es s -> forall m, m <= n -> exists es1 s1 rest,
  run M p i m es1 s1 /\ es = es1 ++ rest /\ (m = n \/ exists e s2, step M p s1 e s2).
Proof.
  induction 1 as [|n es s e s' H IH Hs]; intros m L.
  - assert (m = 0) by lia; subst. eexists [], _, []; split; [constructor|auto].
  - destruct (Nat.eq_dec m (Datatypes.S n)) as [->|]; [|destruct (Nat.eq_dec m n) as [->|]].
    + exists (es ++ e), s', []; rewrite app_nil_r; split; [econstructor; eauto|auto].
    + exists es, s, e; eauto 6.
    + destruct (IH m) as (es1 & s1 & rest & A & -> & [|B]); try lia. exists es1, s1, (rest ++ e); rewrite app_assoc; auto.
Qed.
(** A deterministic program that has ended has no longer execution, and a shorter one is the beginning of it. *)
Lemma no_longer p i n es s m es' s' : deterministic M p i -> run M p i n es s -> ended s <> Running ->
  run M p i m es' s' -> m <= n /\ exists rest, es = es' ++ rest.
Proof.
  intros D H N H'. destruct (Nat.le_gt_cases m n) as [L|L].
  - destruct (run_prefix _ _ _ _ _ H m L) as (es1 & s1 & rest & A & -> & _). destruct (D _ _ _ _ _ A H') as [<- _]; eauto.
  - destruct (run_prefix _ _ _ _ _ H' n) as (es1 & s1 & rest & A & _ & [B|(e & s2 & B)]); try lia.
    destruct (D _ _ _ _ _ A H) as [_ ->]. exfalso; destruct B; congruence.
Qed.
Lemma one_end p i n es s m es' s' : deterministic M p i -> run M p i n es s -> run M p i m es' s' ->
  ended s <> Running -> ended s' <> Running -> s = s'.
Proof.
  intros D H H' N N'. assert (m = n) as -> by (apply Nat.le_antisymm; eapply no_longer; eauto). apply (D _ _ _ _ _ H H').
Qed.
Theorem traces p q S T i j n es s : key hash p S i = key hash q T j -> deterministic M p i ->
  run M p i n es s -> ended s <> Running -> clean S es ->
  (forall m es' t, run M q j m es' t -> clean T es') /\ (forall o, outcome M q j o <-> o = observation s).
Proof.
  intros E D H N C. assert (All : forall m es' s', run M p i m es' s' -> clean S es').
  { intros m es' s' H'; destruct (no_longer _ _ _ _ _ _ _ _ D H N H') as [_ [rest ->]]. apply Forall_app in C; tauto. }
  pose proof (eq_sym E) as E'; apply isomorphism_of_keys in E' as (<- & R & I).
  pose proof (all_traces p q S T j R I All) as Back. assert (C' : forall m es' t, run M q j m es' t -> clean T es').
  { intros m es' t Ht; destruct (Back _ _ _ Ht) as (es0 & s0 & Hr & He & _).
    apply (clean_related q p T S R I es' es0 He); eauto. }
  split; auto. intros o; split.
  - intros (No & m & es' & t & Ht & <-). destruct (Back _ _ _ Ht) as (es0 & s0 & Hr & _ & Hm & _).
    rewrite (matching_observation R t s0 Hm) in *. rewrite (one_end p j n es s m es0 s0 D H Hr N); auto.
  - intros ->. destruct (traces_exist p q S T j j n es s E H C) as (es' & t & A & B & F).
    split; [exact N|]. exists n, es', t; auto.
Qed.

(** ** Theorem (c) *)
Theorem unreached p q stub inputs : roots_of p = roots_of q -> (forall x, reached (graph_of hash p stub) x ->
    find p x = find q x /\ (stub x = false -> targets_of p x = targets_of q x)) ->
  key hash p stub inputs = key hash q stub inputs.
Proof using Type.
  intros Hr Ha; unfold key; do 3 f_equal. apply canonical; auto using closed_graph_of.
  apply isomorphic_if_agree; auto. intros x Hx; destruct (Ha x Hx) as [A B]; simpl; unfold describe_of.
  rewrite A; destruct (stub x); rewrite ?B; auto.
Qed.
(** [edit p x c]: component x is changed to c, added, or removed. *)
Definition edit (p : program) (x : node) (c : option component) : program := {|
  components := (match c with Some c => [(x, c)] | None => [] end) ++ filter (fun yc => negb (fst yc =? x)) (components p);
  bind := bind p; roots := roots p |}.

Lemma find_edit p x c y : y <> x -> find (edit p x c) y = find p y.
Proof.
  intros N; unfold find, edit; simpl.
  assert (F : find_in (filter (fun yc => negb (fst yc =? x)) (components p)) y = find_in (components p) y).
  { induction (components p) as [|[z d] l IH]; simpl; auto.
    destruct (Nat.eqb_spec z x), (Nat.eqb_spec y z); simpl; subst; try tauto; auto.
    - rewrite Nat.eqb_refl; auto.
    - destruct (Nat.eqb_spec y z); tauto. }
  destruct c; simpl; auto. destruct (Nat.eqb_spec y x); tauto.
Qed.
Theorem edit_unreached p x c stub inputs :
  ~ reached (graph_of hash p stub) x -> ~ reached (graph_of hash (edit p x c) stub) x ->
  key hash p stub inputs = key hash (edit p x c) stub inputs.
Proof using Type.
  clear collision_free; set (q := edit p x c); intros Np Nq.
  assert (K : forall l, (forall y, In y (filter (linked p) l) -> y <> x) -> (forall y, In y (filter (linked q) l) -> y <> x) ->
    filter (linked p) l = filter (linked q) l).
  { induction l as [|y l IH]; simpl; intros A B; auto. destruct (Nat.eq_dec y x) as [->|Ne].
    - destruct (linked p x); [exfalso; eapply A; simpl; eauto|].
      destruct (linked q x); [exfalso; eapply B; simpl; eauto|]. auto.
    - unfold linked in *; unfold q in *; rewrite find_edit in *; auto.
      destruct (find p y); simpl in *; [f_equal|]; apply IH; auto. }
  assert (Hr : roots_of p = roots_of q).
  { unfold roots_of; simpl. apply map_ext_in; intros [label l] Hl; simpl; f_equal; apply K; intros y Hy ->.
    - apply Np, (reached_root _ label (filter (linked p) l)); auto. apply in_map_iff; exists (label, l); auto.
    - apply Nq, (reached_root _ label (filter (linked q) l)); auto. apply in_map_iff; exists (label, l); auto. }
  assert (T : forall y, reached (graph_of hash p stub) y -> reached (graph_of hash q stub) y ->
    find p y = find q y /\ (stub y = false -> targets_of p y = targets_of q y)).
  { intros y Yp Yq; assert (F : find p y = find q y) by (symmetry; apply find_edit; congruence). split; auto. intros Hs.
    assert (W : forall p' x r c, reached (graph_of hash p' stub) y -> find p' y = Some c -> In r (refs c) ->
      In x (filter (linked p') (bind p' y r)) -> reached (graph_of hash p' stub) x).
    { intros p' z r d A B C Hz; eapply reached_ref; [exact A| |exact Hz]. simpl; rewrite Hs; unfold targets_of; rewrite B.
      apply in_map_iff; eauto. }
    unfold targets_of; rewrite <- F; destruct (find p y) eqn:Fy; auto.
    apply map_ext_in; intros r Hr'; apply K; intros z Hz ->; [apply Np|apply Nq]; eapply W; eauto. }
  assert (Q : forall y, reached (graph_of hash p stub) y -> reached (graph_of hash q stub) y).
  { induction 1 as [label xs y H Hy|y xs z Hp Hq H Hz]; simpl in H.
    - rewrite Hr in H; eapply reached_root; eauto.
    - eapply reached_ref; [exact Hq| |exact Hz]. simpl.
      destruct (stub y) eqn:Hs; [inversion H|]. destruct (T y Hp Hq) as [_ <-]; auto. }
  apply unreached; auto.
Qed.
End Hashed.
