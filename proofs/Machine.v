(** * Programs, and how they are executed

    A program is a list of components, a binding and roots. A component is a function or a variable: it has content
    (code, or initial data) and ordered references, which are names. The binding says where a name leads, for each
    component: to no component, to one, or to several candidates. What isn't linked is no target. Two components with
    the same name, definitions that win over others, and archives are all in the binding, which is arbitrary here.

    Execution is a sequence of small steps. The loader enters roots one after another (initialisers, then main): which
    ones and in which order is decided by the names of the roots. A step executes an action of the component on top of
    the stack. Its own content decides which action, together with what it sees of the registers. An action may

    - put the target of one of the component's references, or a root, into a register;
    - call, load or store by a pointer in a register, wherever the pointer came from;
    - allocate memory, read input, write output, return or exit.

    So addresses are data that flows: through registers, variables, heap and tables of function pointers. What a
    component sees of a pointer is its offset, and which registers point to the same thing. It doesn't see the address
    as a number, nor its order: assumption 8 of docs/explanation/soundness.md is part of this model.

    What code means is left open: [act] is any relation between content, place in the code, view and action. It may
    allow several actions, then the program isn't deterministic. [initial] is the initial data that content means.

    Each step yields events: which function was entered or executed, which component's content was read. *)

From Stdlib Require Import List Arith Lia Bool.
From Tasting Require Import Graph Walk.
Import ListNotations.
(** ** Programs *)
Record component := {
  kind : nat;           (* function or variable, and its linkage *)
  symbols : list name;  (* names by which others may refer to it *)
  entry : list name;    (* names by which a tracer knows it; empty for variables *)
  content : bytes;      (* its code or data, and the names that nothing defines *)
  refs : list name      (* its references, in order *)
}.
Record program := {
  components : list (node * component);
  bind : node -> name -> list node;
  roots : list (name * list node)
}.
Fixpoint find_in (l : list (node * component)) (x : node) : option component :=
  match l with
  | [] => None
  | (y, c) :: rest => if x =? y then Some c else find_in rest x
  end.
Definition find (p : program) (x : node) : option component := find_in (components p) x.
Definition linked (p : program) (x : node) : bool := match find p x with Some _ => true | None => false end.
Definition targets_of (p : program) (x : node) : list (list node) :=
  match find p x with
  | Some c => map (fun s => filter (linked p) (bind p x s)) (refs c)
  | None => []
  end.
Definition roots_of (p : program) : list (name * list node) :=
  map (fun g => (fst g, filter (linked p) (snd g))) (roots p).

(** ** Keys *)
Section Key.
Variable hash : list nat -> nat.
Definition describe_of (p : program) (stub : node -> bool) (x : node) : description :=
  match find p x with
  | Some c => if stub x then Stub (kind c) (symbols c) (entry c) else Full (kind c) (symbols c) (hash (content c))
  | None => Full 0 [] 0
  end.

(** The graph that is walked. Some functions may be stubs: without content and references. *)
Definition graph_of (p : program) (stub : node -> bool) : graph :=
  {| nodes := map fst (components p); describe := describe_of p stub; groups := roots_of p;
     targets := fun x => if stub x then [] else targets_of p x |}.

Definition key (p : program) (stub : node -> bool) (input : list nat) : nat :=
  hash [hash (text (graph_of p stub)); hash input].
End Key.
Definition no_stubs : node -> bool := fun _ => false.

(** ** States *)
Inductive base := In_component (x : node) | In_heap (k : nat).
Inductive value := Number (k : nat) | Pointer (b : base) (offset : nat).
Inductive status := Running | Exited (k : nat) | Faulted.
Record state := State {
  registers : list value;
  memory : list (base * nat * value);  (* what was stored, the latest first *)
  allocated : nat;                     (* how much is in the heap *)
  input : list nat;
  output : list nat;                   (* the latest first *)
  stack : list (node * nat);           (* the executing component and its place; then its callers *)
  pending : list node;                 (* roots that are still to be entered *)
  ended : status
}.

(** What a component sees of the registers. *)
Inductive sight := Sees_number (k : nat) | Sees_pointer (first : nat) (offset : nat).
Definition same_base (a b : base) : bool :=
  match a, b with
  | In_component x, In_component y => x =? y
  | In_heap i, In_heap j => i =? j
  | _, _ => false
  end.
Fixpoint first (b : base) (l : list value) : nat :=
  match l with
  | Pointer b' _ :: rest => if same_base b b' then 0 else S (first b rest)
  | _ :: rest => S (first b rest)
  | [] => 0
  end.
Definition look (l : list value) : list sight :=
  map (fun v => match v with Number k => Sees_number k | Pointer b o => Sees_pointer (first b l) o end) l.

(** Each action ends with the next place in the component's code. *)
Inductive action :=
| Put (r k next : nat)         (* r becomes the number k *)
| Move (r from next : nat)
| Point (r from offset next : nat)  (* r becomes the pointer in from, with another offset *)
| Refer (r i j next : nat)     (* r points to target j of reference i; if there is none, r becomes 0 *)
| Root (r i next : nat)        (* r points to root i *)
| Load (r from next : nat)
| Store (to r next : nat)
| Allocate (r next : nat)
| Input (r next : nat)         (* r becomes the next number of the input, or 0 at its end *)
| Output (k next : nat)
| Call (r next : nat)
| Return
| Exit (k : nat).
Inductive initial_value := Is_number (k : nat) | Is_target (i j offset : nat).
Record machine := {
  act : bytes -> nat -> list sight -> action -> Prop;
  initial : bytes -> nat -> initial_value;
  schedule : list (name * nat) -> list nat;  (* of the names and sizes of root groups: which roots are entered *)
  width : nat                                (* how many registers there are *)
}.
Inductive event := Entered (x : node) | Executed (x : node) | Read (x : node).

(** ** Steps *)
Section Steps.
Variable M : machine.
Variable p : program.
Definition register (s : state) (r : nat) : value := nth r (registers s) (Number 0).
Fixpoint replace {A} (l : list A) (r : nat) (v : A) : list A :=
  match l, r with
  | [], _ => []
  | _ :: rest, 0 => v :: rest
  | x :: rest, S r => x :: replace rest r v
  end.
Fixpoint stored (m : list (base * nat * value)) (b : base) (o : nat) : option value :=
  match m with
  | [] => None
  | (b', o', v) :: rest => if same_base b b' && (o =? o') then Some v else stored rest b o
  end.
Definition pointer_to (x : option node) (o : nat) : value :=
  match x with Some x => Pointer (In_component x) o | None => Number 0 end.
Definition target (x : node) (i j : nat) : option node := nth_error (nth i (targets_of p x) []) j.
Definition entries : list node := concat (map snd (roots_of p)).

(** The value at a place in memory, and the event of reading it. *)
Definition value_at (s : state) (b : base) (o : nat) : value * list event :=
  match stored (memory s) b o, b with
  | Some v, _ => (v, [])
  | None, In_heap _ => (Number 0, [])
  | None, In_component x =>
      match find p x with
      | None => (Number 0, [Read x])
      | Some c =>
          (match initial M (content c) o with Is_number k => Number k | Is_target i j o => pointer_to (target x i j) o end,
           [Read x])
      end
  end.

(** States that differ in something from s. *)
Definition with_data (s : state) rs m n i o := State rs m n i o (stack s) (pending s) (ended s).
Definition with_stack (s : state) st todo := State (registers s) (memory s) (allocated s) (input s) (output s) st todo (ended s).
Definition finish (s : state) e :=
  State (registers s) (memory s) (allocated s) (input s) (output s) (stack s) (pending s) e.
Definition goto (s : state) (x next : nat) := with_stack s ((x, next) :: tl (stack s)) (pending s).
Definition put (s : state) r v := with_data s (replace (registers s) r v) (memory s) (allocated s) (input s) (output s).
Definition enter (s : state) (x : node) frames todo := with_stack s ((x, 0) :: frames) todo.

(** What an action of component x, on top of the stack, does. *)
Definition perform (x : node) (a : action) (s : state) : state * list event :=
  match a with
  | Put r k next => (goto (put s r (Number k)) x next, [])
  | Move r from next => (goto (put s r (register s from)) x next, [])
  | Point r from o next =>
      match register s from with
      | Pointer b _ => (goto (put s r (Pointer b o)) x next, [])
      | Number _ => (finish s Faulted, [])
      end
  | Refer r i j next => (goto (put s r (pointer_to (target x i j) 0)) x next, [])
  | Root r i next => (goto (put s r (pointer_to (nth_error entries i) 0)) x next, [])
  | Load r from next =>
      match register s from with
      | Pointer b o => let (v, es) := value_at s b o in (goto (put s r v) x next, es)
      | Number _ => (finish s Faulted, [])
      end
  | Store to r next =>
      match register s to with
      | Pointer b o =>
          let m := (b, o, register s r) :: memory s in
          (goto (with_data s (registers s) m (allocated s) (input s) (output s)) x next, [])
      | Number _ => (finish s Faulted, [])
      end
  | Allocate r next =>
      let t := with_data s (registers s) (memory s) (S (allocated s)) (input s) (output s) in
      (goto (put t r (Pointer (In_heap (allocated s)) 0)) x next, [])
  | Input r next =>
      let t := with_data s (registers s) (memory s) (allocated s) (tl (input s)) (output s) in
      (goto (put t r (Number (hd 0 (input s)))) x next, [])
  | Output k next => (goto (with_data s (registers s) (memory s) (allocated s) (input s) (k :: output s)) x next, [])
  | Call r next =>
      match register s r with
      | Pointer (In_component y) 0 => (enter s y ((x, next) :: tl (stack s)) (pending s), [Entered y])
      | _ => (finish s Faulted, [])
      end
  | Return => (with_stack s (tl (stack s)) (pending s), [])
  | Exit k => (finish s (Exited k), [])
  end.
Inductive step (s : state) : list event -> state -> Prop :=
| step_root : forall x rest, ended s = Running -> stack s = [] -> pending s = x :: rest ->
    step s [Entered x] (enter s x [] rest)
| step_end : ended s = Running -> stack s = [] -> pending s = [] -> step s [] (finish s (Exited 0))
| step_act : forall x place frames c a s' es, ended s = Running -> stack s = (x, place) :: frames -> find p x = Some c ->
    act M (content c) place (look (registers s)) a -> perform x a s = (s', es) -> step s (Executed x :: es) s'.
Definition order : list node :=
  flat_map (fun i => match nth_error entries i with Some x => [x] | None => [] end)
    (schedule M (map (fun g => (fst g, length (snd g))) (roots_of p))).
Definition initial_state (inputs : list nat) : state :=
  State (repeat (Number 0) (width M)) [] 0 inputs [] [] order Running.

(** [run inputs n es s]: n steps from the start can lead to s, with events es. *)
Inductive run (inputs : list nat) : nat -> list event -> state -> Prop :=
| run_start : run inputs 0 [] (initial_state inputs)
| run_step : forall n es s e s', run inputs n es s -> step s e s' -> run inputs (S n) (es ++ e) s'.

(** What others see of an execution: its output so far, and whether and how it has ended. *)
Definition observation (s : state) : list nat * status := (output s, ended s).
Definition observed (inputs : list nat) (n : nat) (o : list nat * status) :=
  exists es s, run inputs n es s /\ observation s = o.
Definition outcome (inputs : list nat) (o : list nat * status) := snd o <> Running /\ exists n, observed inputs n o.

(** At each time at most one way to go on. *)
Definition deterministic (inputs : list nat) :=
  forall n es s es' s', run inputs n es s -> run inputs n es' s' -> es = es' /\ s = s'.
End Steps.
