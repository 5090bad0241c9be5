(** * The formula that is printed in TASTING is unsafe

    Section 2.3 of the paper defines a hash of each function f:

        H(f) = hash of h(f), H(c) for each child c of f, and h(g) for each other g in f's recursive group
        children of f: what f refers to, without f's recursive group

    [H] below is this formula. A test's fingerprint is H(main).

    The counterexample (theorem (f)) has four functions. main calls m; m calls o; o calls k and refers to m. So m and o are
    a recursive group, and k is a child of o only. H(m) has h(o) and no child of m: k isn't in it, and so not in H(main).
    In one version k writes 1, in the other one 2. Both versions have the same H(main), whatever the hash is, and
    different outcomes. Their keys differ, by [equal_keys]. *)

From Stdlib Require Import List Arith Lia Bool.
From Tasting Require Import Graph Walk Machine Safety Selection.
Import ListNotations.
(** ** The formula *)
Section Formula.
Variable hash : list nat -> nat.
Variable p : program.
Definition names : list node := map fst (components p).  (* sorted *)

Definition h (x : node) : nat := match find p x with Some c => hash (content c) | None => hash [] end.
Definition l (x : node) : list node := concat (targets_of p x).
Definition next (xs : list node) : list node := filter (fun y => member y xs || existsb (fun x => member y (l x)) xs) names.
Definition reaches (x y : node) : bool := member y (Nat.iter (length names) next (filter (fun z => member z (l x)) names)).

(** The recursive group of x. *)
Definition SC (x y : node) : bool := (x =? y) || reaches x y && reaches y x.
Fixpoint H (depth : nat) (x : node) : nat :=
  match depth with
  | 0 => 0
  | S depth =>
      let children := filter (fun c => member c (l x) && negb (SC x c)) names in
      let group := filter (fun g => SC x g && negb (g =? x)) names in
      hash (h x :: map (H depth) children ++ map h group)
  end.
Definition printed (main : node) : nat := H (S (length names)) main.
End Formula.

(** ** The counterexample *)
(** Content [0; k] is code that writes k and returns, content [1; i] code that calls its reference i and returns. *)
Definition code (c : bytes) (place : nat) : action :=
  match c, place with
  | [0; k], 0 => Output k 1
  | [1; i], 0 => Refer 0 i 0 1
  | [1; i], 1 => Call 0 2
  | _, _ => Return
  end.
Definition small : machine :=
  {| act := fun c place _ a => a = code c place; initial := fun _ _ => Is_number 0;
     schedule := fun groups => seq 0 (length groups); width := 1 |}.

Definition main := 0. Definition m := 1. Definition o := 2. Definition k := 3.
Definition function (x : node) (c : bytes) (refs : list name) : node * component :=
  (x, {| kind := 0; symbols := [x]; entry := [x]; content := c; refs := refs |}).
Definition writes (n : nat) : program := {|
  components := [function main [1; 0] [m]; function m [1; 0] [o]; function o [1; 1] [m; k]; function k [0; n] []];
  bind := fun _ s => [s]; roots := [(main, [main])] |}.

Lemma functional_deterministic M p i :
  (forall c place v a b, act M c place v a -> act M c place v b -> a = b) -> deterministic M p i.
Proof.
  intros F n es s es' s' R; revert es' s'; induction R as [|n es s e s' R IH St]; intros es' t R'; inversion R'; subst; auto.
  destruct (IH _ _ H1) as [-> ->]. assert (e = e0 /\ s' = t) as [-> ->]; auto.
  destruct St as [x r A B C|A B C|x pl f c a u es1 A B C D E], H2 as [x' r' A' B' C'|A' B' C'|x' pl' f' c' a' u' es2 A' B' C' D' E'];
    try (split; congruence).
  assert (x' = x /\ pl' = pl) as [-> ->] by (split; congruence). assert (c' = c) as -> by congruence.
  assert (a' = a) as -> by eauto. split; congruence.
Qed.
(** The steps of [small], as a program. *)
Definition go (p : program) (s : state) : list event * state :=
  match stack s, pending s with
  | [], x :: rest => ([Entered x], enter s x [] rest)
  | [], [] => ([], finish s (Exited 0))
  | (x, place) :: _, _ =>
      match find p x with
      | Some c => let (s, es) := perform small p x (code (content c) place) s in (Executed x :: es, s)
      | None => ([], s)
      end
  end.
Lemma go_step p s : ended s = Running -> find p (fst (hd (0, 0) (stack s))) <> None -> step small p s (fst (go p s)) (snd (go p s)).
Proof.
  intros A B; unfold go; destruct (stack s) as [|[x place] frames] eqn:E.
  - destruct (pending s) eqn:F; [apply step_end|apply step_root]; auto.
  - simpl in B; destruct (find p x) as [c|] eqn:F; [|tauto].
    destruct (perform _ _ _ _ _) as [t es] eqn:G; simpl. eapply step_act; eauto. reflexivity.
Qed.
Lemma writes_run n : exists es s, run small (writes n) [] 13 es s /\ observation s = ([n], Exited 0).
Proof.
  assert (K : forall j, j <= 13 -> exists es, run small (writes n) [] j es (Nat.iter j (fun s => snd (go (writes n) s)) (initial_state small (writes n) []))).
  { induction j; intros L; [eexists; apply run_start|].
    destruct IHj as (es & R); [lia|]. eexists; eapply run_step; [exact R|]. simpl; apply go_step;
      do 13 (destruct j; [vm_compute; congruence|]); lia. }
  destruct (K 13 (le_n 13)) as (es & R). eexists _, _; split; [exact R|]. vm_compute; auto.
Qed.
Lemma writes_outcome n : outcome small (writes n) [] ([n], Exited 0).
Proof. split; [discriminate|]. exists 13; apply writes_run. Qed.
Lemma writes_only n x : outcome small (writes n) [] x -> x = ([n], Exited 0).
Proof.
  intros (N & j & es & s & R & <-).
  assert (D : deterministic small (writes n) []) by (apply functional_deterministic; simpl; congruence).
  destruct (writes_run n) as (es' & t & R' & E). rewrite <- E. f_equal; eapply one_end; eauto.
  intros C; unfold observation in E; rewrite C in E; discriminate.
Qed.
Theorem printed_unsafe hash : printed hash (writes 1) main = printed hash (writes 2) main /\
  (exists x, outcome small (writes 1) [] x) /\
  (forall x y, outcome small (writes 1) [] x -> outcome small (writes 2) [] y -> x <> y).
Proof.
  split; [vm_compute; reflexivity|]. split; [eauto using writes_outcome|].
  intros x y A B; apply writes_only in A, B; congruence.
Qed.
(** The key tells them apart. *)
Theorem key_differs hash : injective hash -> key hash (writes 1) no_stubs [] <> key hash (writes 2) no_stubs [].
Proof.
  intros I E. destruct (equal_keys hash I small _ _ _ _ E) as [_ K].
  pose proof (proj1 (K _) (writes_outcome 1)) as W; apply writes_only in W; discriminate.
Qed.

(** The premise of all theorems can be met: there are functions without collisions. *)
Fixpoint godel (l : list nat) : nat := match l with [] => 0 | x :: rest => 2 ^ x * (2 * godel rest + 1) end.
Lemma odd_part x : forall y a b, 2 ^ x * (2 * a + 1) = 2 ^ y * (2 * b + 1) -> x = y /\ a = b.
Proof.
  induction x as [|x IH]; intros [|y] a b; rewrite ?Nat.pow_succ_r', <- ?Nat.mul_assoc, ?Nat.pow_0_r; intros E; try lia.
  destruct (IH y a b); lia.
Qed.
Theorem injective_exists : exists hash, injective hash.
Proof.
  assert (P : forall x a, 2 ^ x * (2 * a + 1) <> 0) by (intros; apply Nat.neq_mul_0; split; [apply Nat.pow_nonzero|]; lia).
  exists godel; intros a; induction a as [|x a IH]; intros [|y b] E; cbn [godel] in E; auto.
  - destruct (P _ _ (eq_sym E)).
  - destruct (P _ _ E).
  - apply odd_part in E as [-> E]; f_equal; auto.
Qed.
