(** * The canonical form of a graph

    The walk gives each reached node a number and writes a text:

    - Roots get the first numbers, in order.
    - The node with the highest number among those that weren't visited is visited next.
    - A visit writes the node's description, and for each reference the numbers of its targets. A target without a
      number gets the next one.

    analyzer/internal/key/refgraph does the same in Go. Below, [form] is the result as a value, and [text] is [form]
    written down as one list of numbers, which is what gets hashed. Both are programs: Extract.v makes OCaml of them.

    Theorem [canonical]: two graphs have equal texts exactly if they are isomorphic. So whoever reads the text can
    rebuild the graph, and the text depends on nothing else.

    Why it holds. One direction runs both walks side by side: related nodes get equal numbers. The other direction
    relates the nodes that have equal numbers when both walks are over, and shows that this relation is an
    isomorphism. *)

From Stdlib Require Import List Arith Lia Bool.
From Tasting Require Import Graph.
Import ListNotations.
(** ** The walk, as a program *)
(** Nodes that have a number are in a list: a node's number is its place there. *)
Fixpoint index (x : node) (seen : list node) : option nat :=
  match seen with
  | [] => None
  | y :: rest => if x =? y then Some 0 else option_map S (index x rest)
  end.

(** [visit] gives a node its number, [visits] a list of nodes, [visitss] a list of such lists. *)
Definition visit (seen : list node) (x : node) : list node * nat :=
  match index x seen with
  | Some i => (seen, i)
  | None => (seen ++ [x], length seen)
  end.
Fixpoint each {A B} (f : list node -> A -> list node * B) (seen : list node) (xs : list A) : list node * list B :=
  match xs with
  | [] => (seen, [])
  | x :: rest => let (seen, i) := f seen x in let (seen, is) := each f seen rest in (seen, i :: is)
  end.
Definition visits := each visit.
Definition visitss := each visits.
Record walk := {
  seen : list node;                              (* nodes by their numbers *)
  open : list nat;                               (* numbers that weren't visited, the next one first *)
  records : list (description * list (list nat)) (* what was written *)
}.

(** The numbers from a to b, without b, the highest one first. *)
Definition downto (a b : nat) : list nat := rev (seq a (b - a)).
Definition step (g : graph) (w : walk) : walk :=
  match open w with
  | [] => w
  | i :: rest =>
      let x := nth i (seen w) 0 in
      let (s, iss) := visitss (seen w) (targets g x) in
      {| seen := s; open := downto (length (seen w)) (length s) ++ rest; records := records w ++ [(describe g x, iss)] |}
  end.
Definition start (g : graph) : walk * list (list nat) :=
  let (s, iss) := visitss [] (map snd (groups g)) in
  ({| seen := s; open := downto 0 (length s); records := [] |}, iss).

(** There are at most as many visits as nodes. A step with nothing to visit does nothing. *)
Definition run (g : graph) : walk := Nat.iter (length (nodes g)) (step g) (fst (start g)).
Definition form (g : graph) : list (name * list nat) * list (description * list (list nat)) :=
  (combine (map fst (groups g)) (snd (start g)), records (run g)).

(** ** The text *)
(** A list is written with its length in front. *)
Definition write_list {A} (write : A -> list nat) (xs : list A) : list nat := length xs :: flat_map write xs.
Definition write_number (i : nat) : list nat := [i].
Definition write_pair {A B} (u : A -> list nat) (v : B -> list nat) (x : A * B) : list nat := u (fst x) ++ v (snd x).
Definition write_description (d : description) : list nat :=
  match d with
  | Full kind symbols digest => [0; kind; digest] ++ write_list write_number symbols
  | Stub kind symbols entry => [1; kind] ++ write_pair (write_list write_number) (write_list write_number) (symbols, entry)
  end.
Definition write_numbers := write_list write_number.
Definition text (g : graph) : list nat := write_pair (write_list (write_pair write_number write_numbers))
    (write_list (write_pair write_description (write_list write_numbers))) (form g).

(** A writer is readable if whoever knows what follows can tell what was written. *)
Definition readable {A} (write : A -> list nat) := forall a b s t, write a ++ s = write b ++ t -> a = b /\ s = t.
Lemma readable_number : readable write_number.
Proof. intros a b s t E; injection E; auto. Qed.
Lemma readable_list {A} (write : A -> list nat) : readable write -> readable (write_list write).
Proof.
  intros W xs ys s t E; injection E; clear E; intros E L; revert ys L E.
  induction xs as [|x xs IH]; intros [|y ys] L E; simpl in *; try discriminate; auto.
  rewrite <- !app_assoc in E; apply W in E as [-> E]. apply IH in E as [-> ?]; auto.
Qed.
Lemma readable_pair {A B} (u : A -> list nat) (v : B -> list nat) : readable u -> readable v -> readable (write_pair u v).
Proof.
  intros U V [a b] [a' b'] s t E; unfold write_pair in E; simpl in E; rewrite <- !app_assoc in E.
  apply U in E as [-> E]; apply V in E as [-> ->]; auto.
Qed.
Lemma readable_description : readable write_description.
Proof.
  pose proof (readable_list _ readable_number) as N.
  intros [k y d|k y e] [k' y' d'|k' y' e'] s t E; try discriminate E; unfold write_description in E;
    rewrite <- !app_assoc in E; pose proof (f_equal (fun l => nth 1 l 0) E) as E1; simpl in E1; subst k'.
  - pose proof (f_equal (fun l => nth 2 l 0) E) as E2; simpl in E2; subst d'.
    apply (app_inv_head [0; k; d]), N in E as [-> ->]; auto.
  - apply (app_inv_head [1; k]), (readable_pair _ _ N N) in E as [F ->]; injection F; intros -> ->; auto.
Qed.
Lemma text_form g h : text g = text h <-> form g = form h.
Proof.
  split; [|unfold text; intros ->; auto]. intros E.
  assert (R : readable write_numbers) by (apply readable_list, readable_number).
  apply (readable_pair _ _ (readable_list _ (readable_pair _ _ readable_number R))
    (readable_list _ (readable_pair _ _ readable_description (readable_list _ R))) _ _ [] []).
  fold (text g) (text h); congruence.
Qed.

(** ** Numbers *)
(** [at_number s x i]: node x has number i. *)
Definition at_number (s : list node) (x : node) (i : nat) := nth_error s i = Some x.
Lemma index_some x s i : index x s = Some i -> nth_error s i = Some x.
Proof.
  revert i; induction s as [|y s IH]; simpl; intros i E; try discriminate. destruct (Nat.eqb_spec x y).
  - injection E; intros <-; subst; auto.
  - destruct (index x s); try discriminate. injection E; intros <-; simpl; auto.
Qed.
Lemma index_none x s : index x s = None -> ~ In x s.
Proof.
  induction s as [|y s IH]; simpl; auto. destruct (Nat.eqb_spec x y); [discriminate|].
  destruct (index x s); [discriminate|]. intros _ [->|H]; auto. apply IH; auto.
Qed.
(** [grows s t P]: t is s with new nodes behind it, each of them once, and P holds for each of them. *)
Definition grows (s t : list node) (P : node -> Prop) :=
  (exists new, t = s ++ new) /\ (NoDup s -> NoDup t) /\ (forall x, In x t -> In x s \/ P x).
Lemma at_grows s t P x i : grows s t P -> at_number s x i -> at_number t x i.
Proof.
  intros [[new ->] _] E; unfold at_number in *. rewrite nth_error_app1; auto. apply nth_error_Some; congruence.
Qed.
(** What holds of [f] holds of [each f]: [f] numbers the nodes of which [inside] holds, [Q] says which numbers. *)
Definition numbers {A B} (f : list node -> A -> list node * B) inside (Q : list node -> A -> B -> Prop) :=
  (forall s x t i, f s x = (t, i) -> grows s t (inside x) /\ Q t x i) /\
  (forall s t P x i, grows s t P -> Q s x i -> Q t x i).
Lemma visit_numbers : numbers visit eq at_number.
Proof.
  split; [|apply at_grows]. intros s x t i; unfold visit; destruct (index x s) eqn:E; intros H; injection H; intros <- <-.
  - split; [|apply index_some; auto]. repeat split; auto. exists []; rewrite app_nil_r; auto.
  - split; [|unfold at_number; rewrite nth_error_app2, Nat.sub_diag; auto]. repeat split; [eauto| |].
    + intros N; apply NoDup_app; auto; [constructor; auto; constructor|]. intros y H1 [<-|[]]; eapply index_none; eauto.
    + intros y; rewrite in_app_iff; simpl; intuition.
Qed.
Lemma each_numbers {A B} (f : list node -> A -> list node * B) inside Q : numbers f inside Q ->
  numbers (each f) (fun xs y => exists x, In x xs /\ inside x y) (fun s => relates (Q s)).
Proof.
  intros [F M]; split; [|intros s t P xs is G; apply relates_map; eauto].
  intros s xs; revert s; induction xs as [|x xs IH]; simpl; intros s t is E.
  - injection E; intros <- <-. split; [|constructor]. repeat split; auto. exists []; rewrite app_nil_r; auto.
  - destruct (f s x) as [u i] eqn:V, (each f u xs) as [v js] eqn:W. injection E; intros <- <-.
    apply F in V as [([a ->] & N & I) V]; apply IH in W as [([b ->] & N' & I') W].
    assert (G : grows (s ++ a) ((s ++ a) ++ b) (fun y => exists x, In x xs /\ inside x y)) by (repeat split; eauto).
    split; [|constructor; eauto]. repeat split; auto; [rewrite <- app_assoc; eauto|].
    intros y Hy; apply I' in Hy as [Hy|(z & ? & ?)]; [apply I in Hy as [Hy|Hy]|]; eauto.
Qed.
Lemma visitss_spec s xss t iss : visitss s xss = (t, iss) ->
  grows s t (fun z => exists xs, In xs xss /\ exists x, In x xs /\ x = z) /\ relates (relates (at_number t)) xss iss.
Proof. apply (proj1 (each_numbers _ _ _ (each_numbers _ _ _ visit_numbers))). Qed.
(** Equal numbers, and as many nodes before: as many nodes after. *)
Definition counts {A B} (f : list node -> A -> list node * B) := forall s s' x x' t t' i,
  length s = length s' -> f s x = (t, i) -> f s' x' = (t', i) -> length t = length t'.
Lemma visit_counts : counts visit.
Proof.
  unfold visit; intros s s' x x' t t' i L.
  destruct (index x s) eqn:E, (index x' s') eqn:F; intros V W; injection V as <- Vi; injection W as <- Wi;
    rewrite ?length_app; simpl; auto.
  - apply index_some in E; assert (length s' < length s) by (apply nth_error_Some; congruence); lia.
  - apply index_some in F; assert (length s < length s') by (apply nth_error_Some; congruence); lia.
Qed.
Lemma each_counts {A B} (f : list node -> A -> list node * B) : counts f -> counts (each f).
Proof.
  intros C s s' xs; revert s s'; induction xs as [|x xs IH]; simpl; intros s s' [|x' xs'] t t' is L E F; simpl in F;
    try destruct (f s x) as [v j] eqn:V, (each f v xs) as [w js] eqn:W;
    try destruct (f s' x') as [v' j'] eqn:V', (each f v' xs') as [w' js'] eqn:W'; try congruence.
  injection E as <- <-; injection F as <- -> ->. eapply IH; [|eauto|eauto]. eapply C; eauto.
Qed.
Lemma visitss_counts : counts visitss.
Proof. exact (each_counts _ (each_counts _ visit_counts)). Qed.
(** Related nodes get equal numbers. *)
Section Related.
Variable R : node -> node -> Prop.
Hypothesis one : one_to_one R.
Lemma index_related s s' x x' : relates R s s' -> R x x' -> index x s = index x' s'.
Proof.
  intros H Hx; induction H as [|y y' s s' Hy H IH]; simpl; auto. rewrite IH; destruct one as [A B].
  destruct (Nat.eqb_spec x y), (Nat.eqb_spec x' y'); subst; auto; exfalso; eauto.
Qed.
Definition keeps {A B} (f : list node -> A -> list node * B) (Q : A -> A -> Prop) := forall x x', Q x x' ->
  forall s s', relates R s s' -> relates R (fst (f s x)) (fst (f s' x')) /\ snd (f s x) = snd (f s' x').
Lemma visit_keeps : keeps visit R.
Proof.
  intros x x' Hx s s' H; unfold visit; rewrite (index_related s s' x x'), (relates_length _ _ _ H); auto.
  destruct (index x' s'); simpl; auto. split; auto. apply relates_app; auto.
Qed.
Lemma each_keeps {A B} (f : list node -> A -> list node * B) Q : keeps f Q -> keeps (each f) (relates Q).
Proof.
  intros K; induction 1 as [|x x' xs xs' Hx H IH]; simpl; intros s s' Hs; auto.
  destruct (K x x' Hx s s') as [Hv E]; auto.
  destruct (f s x) as [u i], (f s' x') as [u' i']; simpl in *. specialize (IH _ _ Hv).
  destruct (each f u xs), (each f u' xs'), IH; simpl in *; split; [auto|congruence].
Qed.
Lemma visitss_related : keeps visitss (relates (relates R)).
Proof. exact (each_keeps _ _ (each_keeps _ _ visit_keeps)). Qed.
End Related.

(** ** One walk: it ends, and sees only reached nodes *)
Lemma in_downto i a b : In i (downto a b) <-> a <= i < b.
Proof. unfold downto; rewrite <- in_rev, in_seq; lia. Qed.
Lemma length_downto a b : length (downto a b) = b - a.
Proof. unfold downto; rewrite length_rev, length_seq; auto. Qed.
Record fine (g : graph) (w : walk) := {
  fine_once : NoDup (seen w);
  fine_reached : forall x, In x (seen w) -> reached g x;
  fine_open : forall i, In i (open w) -> i < length (seen w);
  fine_count : length (records w) + length (open w) = length (seen w)
}.
Lemma fine_start g : fine g (fst (start g)).
Proof.
  unfold start; destruct (visitss [] _) as [s iss] eqn:E; simpl.
  apply visitss_spec in E as [(_ & N & I) _]; split; simpl.
  - apply N; constructor.
  - intros x H; apply I in H as [[]|(xs & H & y & H' & <-)].
    apply in_map_iff in H as ((l & ys) & <- & H). eapply reached_root; eauto.
  - intros i H; apply in_downto in H; lia.
  - rewrite length_downto; lia.
Qed.
Lemma fine_step g w : fine g w -> fine g (step g w).
Proof.
  intros [O R P C]; unfold step; destruct (open w) as [|i rest] eqn:Ho; [split; rewrite ?Ho; auto|].
  destruct (visitss _ _) as [s iss] eqn:E. apply visitss_spec in E as [([new ->] & N & I) _].
  assert (Hi : i < length (seen w)) by (apply P; simpl; auto). split; simpl.
  - auto.
  - intros x H; apply I in H as [H|(xs & H & y & H' & <-)]; auto. eapply reached_ref; eauto. apply R, nth_In; auto.
  - intros j; rewrite in_app_iff, in_downto; intros [H|H]; [lia|].
    rewrite length_app; assert (j < length (seen w)) by (apply P; simpl; auto); lia.
  - simpl in C; rewrite ?length_app, ?length_downto, ?length_app; simpl; lia.
Qed.
Lemma fine_iter g n : fine g (Nat.iter n (step g) (fst (start g))).
Proof. induction n; simpl; [apply fine_start|apply fine_step; auto]. Qed.
Lemma records_step g w : exists r, records (step g w) = records w ++ r /\ (open w <> [] -> length r = 1).
Proof.
  unfold step; destruct (open w).
  - exists []; rewrite app_nil_r; intuition.
  - destruct (visitss _ _); simpl; eauto.
Qed.
Lemma records_grow g w n m : n <= m -> exists r, records (Nat.iter m (step g) w) = records (Nat.iter n (step g) w) ++ r.
Proof.
  induction 1 as [|m _ (r & H)]; [exists []; rewrite app_nil_r; auto|].
  destruct (records_step g (Nat.iter m (step g) w)) as (r' & P & _). exists (r ++ r'). simpl; rewrite P, H, app_assoc; auto.
Qed.
Lemma at_later g w n x i : at_number (seen w) x i -> at_number (seen (Nat.iter n (step g) w)) x i.
Proof.
  intros H; induction n; simpl; auto. set (v := Nat.iter n (step g) w) in *; unfold step; destruct (open v); auto.
  destruct (visitss (seen v) _) eqn:Q; simpl. apply visitss_spec in Q as [Q _]; eapply at_grows; eauto.
Qed.
Lemma run_ends g : closed g -> open (run g) = [].
Proof.
  intros Hc. set (w k := Nat.iter k (step g) (fst (start g))).
  assert (K : forall k, open (w k) = [] \/ k <= length (records (w k))).
  { induction k; simpl; [right; lia|]. change (w (S k)) with (step g (w k)).
    destruct IHk as [H|H]; [left; unfold step; rewrite H; auto|].
    destruct (open (w k)) eqn:E; [left; unfold step; rewrite E; auto|].
    right; destruct (records_step g (w k)) as (r & -> & L). rewrite length_app, L; [lia|congruence]. }
  pose proof (fine_iter g (length (nodes g))) as F; fold (w (length (nodes g))) in F.
  destruct (K (length (nodes g))) as [H|H]; [exact H|]. unfold run; fold (w (length (nodes g))).
  destruct F as [O R _ C]. assert (length (seen (w (length (nodes g)))) <= length (nodes g)).
  { apply NoDup_incl_length; auto. intros x Hx; apply Hc, R; auto. }
  apply length_zero_iff_nil; lia.
Qed.
Lemma iter_idle g w n : open w = [] -> Nat.iter n (step g) w = w.
Proof. intros H; induction n; simpl; auto. rewrite IHn; unfold step; rewrite H; auto. Qed.
Lemma run_longer g n : closed g -> length (nodes g) <= n -> Nat.iter n (step g) (fst (start g)) = run g.
Proof.
  intros Hc L; replace n with ((n - length (nodes g)) + length (nodes g)) by lia.
  unfold Nat.iter; rewrite nat_rect_plus. apply iter_idle, run_ends; auto.
Qed.

(** ** Isomorphic graphs have one form *)
Lemma form_of_isomorphic g h : closed g -> closed h -> isomorphic g h -> form g = form h.
Proof.
  intros Cg Ch [R I]; pose proof (iso_one _ _ _ I) as One; pose proof (iso_roots _ _ _ I) as Roots.
  assert (M : map fst (groups g) = map fst (groups h)).
  { clear - Roots; induction Roots as [|a b ? ? [E _]]; simpl; congruence. }
  assert (N : relates (relates R) (map snd (groups g)) (map snd (groups h))).
  { clear - Roots; induction Roots as [|a b ? ? [_ E]]; simpl; constructor; auto. }
  destruct (visitss_related R One _ _ N [] []) as [Rs Es]; [constructor|].
  set (agree := fun w w' => relates R (seen w) (seen w') /\ open w = open w' /\ records w = records w').
  assert (S0 : agree (fst (start g)) (fst (start h)) /\ snd (start g) = snd (start h)).
  { unfold start; destruct (visitss [] _), (visitss [] _); simpl in *; unfold agree; simpl.
    rewrite (relates_length _ _ _ Rs); auto. }
  destruct S0 as [S0 Sn]. assert (St : forall w w', fine g w -> agree w w' -> agree (step g w) (step h w')).
  { intros w w' F (A & B & C); unfold step; rewrite <- B.
    destruct (open w) as [|i rest] eqn:Ho; [unfold agree; rewrite Ho; auto|].
    assert (Hi : i < length (seen w)) by (apply (fine_open _ _ F); rewrite Ho; simpl; auto).
    destruct (relates_nth _ _ _ i (nth i (seen w) 0) A) as (y & Hy & Rx); [apply nth_error_nth'; auto|].
    rewrite (nth_error_nth (seen w') i 0 Hy).
    destruct (visitss_related R One _ _ (iso_targets _ _ _ I _ _ Rx) (seen w) (seen w') A) as [P Q].
    destruct (visitss (seen w) _), (visitss (seen w') _); simpl in *; unfold agree; simpl.
    rewrite (relates_length _ _ _ A), (relates_length _ _ _ P), C, Q, (iso_describe _ _ _ I _ _ Rx); auto. }
  assert (It : forall n, agree (Nat.iter n (step g) (fst (start g))) (Nat.iter n (step h) (fst (start h)))).
  { induction n; simpl; auto. apply St; auto. apply fine_iter. }
  specialize (It (length (nodes g) + length (nodes h))). rewrite !run_longer in It by (auto; lia).
  destruct It as (_ & _ & E). unfold form; rewrite M, Sn, E; auto.
Qed.

(** ** Graphs with one form are isomorphic *)
(** What both walks have visited when they have written the same. *)
Definition visited_alike g h w w' i := exists x x' iss,
  at_number (seen w) x i /\ at_number (seen w') x' i /\ describe g x = describe h x' /\
  relates (relates (at_number (seen w))) (targets g x) iss /\ relates (relates (at_number (seen w'))) (targets h x') iss.
Definition alike g h w w' := open w = open w' /\ length (seen w) = length (seen w') /\ records w = records w' /\
  forall i, i < length (seen w) -> In i (open w) \/ visited_alike g h w w' i.
Lemma alike_step g h w w' :
  fine g w -> fine h w' -> alike g h w w' -> records (step g w) = records (step h w') -> alike g h (step g w) (step h w').
Proof.
  intros F F' (A & B & C & D); unfold step; rewrite <- A. destruct (open w) as [|i rest] eqn:Ho.
  { intros _; unfold alike; rewrite Ho; auto. }
  set (x := nth i (seen w) 0); set (x' := nth i (seen w') 0).
  assert (Hi : i < length (seen w)) by (apply (fine_open _ _ F); rewrite Ho; simpl; auto).
  assert (X : at_number (seen w) x i) by (apply nth_error_nth'; auto).
  assert (X' : at_number (seen w') x' i) by (apply nth_error_nth'; lia).
  destruct (visitss (seen w) _) as [s iss] eqn:V, (visitss (seen w') _) as [s' iss'] eqn:V'; simpl.
  rewrite C; intros E; apply app_inv_head in E; injection E; intros E1 E2; subst iss'.
  pose proof (visitss_counts _ _ _ _ _ _ _ B V V') as L.
  apply visitss_spec in V as [G T]; apply visitss_spec in V' as [G' T']. split; [|split; [|split]]; simpl; auto.
  - rewrite B, L; auto.
  - rewrite ?C, E2; auto.
  - intros j Hj. rewrite in_app_iff, in_downto.
    destruct (Nat.lt_ge_cases j (length (seen w))) as [J|J]; [|left; left; auto].
    destruct (D j J) as [[<-|H]|(y & y' & jss & P & P' & Q & U & U')].
    + right; exists x, x', iss; repeat split; auto; eapply at_grows; eauto.
    + auto.
    + right; exists y, y', jss; repeat split; auto; try (eapply at_grows; eauto; fail);
        (eapply relates_map; [|eassumption]); intros; (eapply relates_map; [|eassumption]); intros; eapply at_grows; eauto.
Qed.
Lemma combine_inv {A B} (xs xs' : list A) (ys ys' : list B) :
  length xs = length ys -> length xs' = length ys' -> combine xs ys = combine xs' ys' -> xs = xs' /\ ys = ys'.
Proof. intros L L' E; apply (f_equal (@split A B)) in E; rewrite !combine_split in E by auto. split; congruence. Qed.
Lemma isomorphic_of_form g h : closed g -> closed h -> form g = form h -> isomorphic g h.
Proof.
  intros Cg Ch E; injection E; clear E; intros Er Eg.
  destruct (visitss [] (map snd (groups g))) as [s iss] eqn:V, (visitss [] (map snd (groups h))) as [s' iss'] eqn:V'.
  pose proof V as W; pose proof V' as W'. apply visitss_spec in V as [G T]; apply visitss_spec in V' as [G' T'].
  pose proof (relates_length _ _ _ T) as L; pose proof (relates_length _ _ _ T') as L'; rewrite length_map in L, L'.
  assert (S1 : start g = ({| seen := s; open := downto 0 (length s); records := [] |}, iss)) by (unfold start; rewrite W; auto).
  assert (S2 : start h = ({| seen := s'; open := downto 0 (length s'); records := [] |}, iss')) by (unfold start; rewrite W'; auto).
  rewrite S1, S2 in Eg; simpl in Eg.
  apply combine_inv in Eg as [En <-]; [|rewrite length_map; auto|rewrite length_map; auto].
  pose proof (visitss_counts _ _ _ _ _ _ _ (eq_refl : length [] = length []) W W') as Ls.
  set (w n := Nat.iter n (step g) (fst (start g))); set (w' n := Nat.iter n (step h) (fst (start h))).
  set (N := length (nodes g) + length (nodes h)). assert (EN : records (w N) = records (w' N)).
  { unfold w, w', N; rewrite !run_longer by (auto; lia); auto. }
  assert (Al : forall n, n <= N -> alike g h (w n) (w' n)).
  { induction n; intros Hn.
    - unfold w, w'; simpl; rewrite S1, S2; unfold alike; simpl; rewrite Ls; repeat split; auto.
      intros i Hi; left; apply in_downto; lia.
    - assert (A : alike g h (w n) (w' n)) by (apply IHn; lia).
      change (w (S n)) with (step g (w n)); change (w' (S n)) with (step h (w' n)).
      apply alike_step; auto; try apply fine_iter. change (records (w (S n)) = records (w' (S n))).
      destruct (records_grow g (fst (start g)) _ _ Hn) as (r & P), (records_grow h (fst (start h)) _ _ Hn) as (r' & P').
      fold (w N) (w (S n)) in P; fold (w' N) (w' (S n)) in P'; rewrite EN, P' in P.
      assert (Len : length (records (w (S n))) = length (records (w' (S n)))).
      { destruct A as (A & B & C & _). change (w (S n)) with (step g (w n)); change (w' (S n)) with (step h (w' n)).
        unfold step; rewrite <- A; destruct (open (w n)); [rewrite C; auto|].
        destruct (visitss (seen (w n)) _), (visitss (seen (w' n)) _); simpl; rewrite C, !length_app; auto. }
      assert (Q : forall (a b c d : list (description * list (list nat))), length a = length b -> a ++ c = b ++ d -> a = b).
      { clear; induction a; intros [|] c d; simpl; intros; try discriminate; auto.
        injection H0; intros; subst; f_equal; eauto. }
      symmetry; eapply Q; eauto. }
  specialize (Al N (le_n N)). assert (Z : w N = run g) by (apply run_longer; auto; unfold N; lia).
  assert (Z' : w' N = run h) by (apply run_longer; auto; unfold N; lia).
  rewrite Z, Z' in Al. pose proof (run_ends g Cg) as O.
  assert (F : fine g (run g)) by apply fine_iter. assert (F' : fine h (run h)) by apply fine_iter.
  destruct Al as (_ & Len & _ & Al); rewrite O in Al.
  assert (Vis : forall i, i < length (seen (run g)) -> visited_alike g h (run g) (run h) i).
  { intros i Hi; destruct (Al i Hi) as [[]|H]; auto. }
  clear Al EN Z Z'.
  (* The first numbers stay those of the roots. *)
  assert (First : forall x i, at_number s x i -> at_number (seen (run g)) x i).
  { intros x i H; apply at_later; rewrite S1; auto. }
  assert (First' : forall x i, at_number s' x i -> at_number (seen (run h)) x i).
  { intros x i H; apply at_later; rewrite S2; auto. }
  set (R := fun x y => exists i, at_number (seen (run g)) x i /\ at_number (seen (run h)) y i).
  assert (Pairs : forall xs ys is, relates (relates (at_number (seen (run g)))) xs is ->
    relates (relates (at_number (seen (run h)))) ys is -> relates (relates R) xs ys).
  { intros xs ys is H H'. eapply relates_map; [|apply (relates_join _ _ _ _ _ H H')].
    intros x y (i & K & K'). apply (relates_join _ _ _ _ _ K K'). }
  assert (Bound : forall u (x : node) i, at_number u x i -> i < length u).
  { unfold at_number; intros u x i H; apply nth_error_Some; congruence. }
  assert (Same : forall u (x : node) i j, NoDup u -> at_number u x i -> at_number u x j -> i = j).
  { intros u x i j D H H'. eapply (proj1 (NoDup_nth_error u) D); eauto. unfold at_number in *; congruence. }
  assert (Related : forall x y, R x y -> describe g x = describe h y /\ relates (relates R) (targets g x) (targets h y)).
  { intros x y (i & H & H'). destruct (Vis i) as (a & b & jss & P & P' & Q & U & U'); [eauto|].
    unfold at_number in *; assert (a = x) by congruence; assert (b = y) by congruence; subst; eauto. }
  assert (Roots : relates (same_root R) (groups g) (groups h)).
  { assert (P : relates (relates R) (map snd (groups g)) (map snd (groups h))).
    { eapply Pairs; [eapply relates_map; [|exact T]|eapply relates_map; [|exact T']];
        intros; (eapply relates_map; [|eassumption]); auto. }
    clear - En P; revert En P; generalize (groups h); induction (groups g) as [|a l IH]; intros [|b m]; simpl; intros;
      try discriminate; constructor; inversion P; subst; injection En; intros; unfold same_root in *; auto. }
  exists R; split; auto.
  - intros x y (i & H & H'); split; [apply (fine_reached _ _ F)|apply (fine_reached _ _ F')]; eapply nth_error_In; eauto.
  - apply (reached_related g h R Roots); intros; apply Related; auto.
  - apply (reached_related h g (fun y x => R x y)); [apply relates_flip_roots; auto|].
    intros y x H; apply relates_flip_targets, Related; auto.
  - split.
    + intros x y y' (i & H1 & H2) (j & H3 & H4). assert (i = j) by (eapply Same; [apply (fine_once _ _ F)|exact H1|exact H3]). subst.
      unfold at_number in *; congruence.
    + intros x x' y (i & H1 & H2) (j & H3 & H4). assert (i = j) by (eapply Same; [apply (fine_once _ _ F')|exact H2|exact H4]). subst.
      unfold at_number in *; congruence.
  - intros; apply Related; auto.
  - intros; apply Related; auto.
Qed.

(** ** Theorem (a) *)
Theorem canonical g h : closed g -> closed h -> (text g = text h <-> isomorphic g h).
Proof. intros; rewrite text_form; split; [apply isomorphic_of_form|apply form_of_isomorphic]; auto. Qed.
