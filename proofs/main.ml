(* Reads programs from the standard input and prints for each the number of the first one with an equal canonical form.
   The walk is that of Walk.v, in canonical.ml. All of the input are numbers:

     programs, and for each: whether it is traced
       components, and for each: kind, symbols, names of its entry, content, whether it is a stub,
         references, and for each reference the nodes that its name is bound to
       groups of roots, and for each: name, nodes

   A list begins with its length. Nodes are numbered from 0, in the order of the components. *)

let number () = Scanf.scanf " %d" Fun.id
let list f = List.init (number ()) (fun _ -> f ())

(* The hash is the content itself, which is one number: nothing collides. *)
let hash = List.hd

let program () =
  let traced = number () in
  let read () =
    let kind = number () in
    let symbols = list number in
    let entry = list number in
    let content = number () in
    let stub = number () = 1 in
    let targets = list (fun () -> list number) in
    ({ Canonical.kind; symbols; entry; content = [ content ]; refs = List.mapi (fun i _ -> i) targets }, (stub, targets))
  in
  let components = list read in
  let roots = list (fun () -> let name = number () in (name, list number)) in
  let facts = Array.of_list (List.map snd components) in
  let p =
    { Canonical.components = List.mapi (fun i (c, _) -> (i, c)) components;
      bind = (fun x i -> List.nth (snd facts.(x)) i);
      roots }
  in
  (traced, Canonical.text (Canonical.graph_of hash p (fun x -> fst facts.(x))))

let () =
  let first = Hashtbl.create 100000 in
  for i = 0 to number () - 1 do
    let key = program () in
    let key = Digest.string (Marshal.to_string key [ Marshal.No_sharing ]) in
    if not (Hashtbl.mem first key) then Hashtbl.add first key i;
    Printf.printf "%d\n" (Hashtbl.find first key)
  done
