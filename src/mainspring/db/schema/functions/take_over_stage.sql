-- A stage has a new name: what waits under the former one is its own from here on (visits of both lanes, states, undelivered events),
-- and so is its entry in the catalogue, so that it is not new. Runs under way under the former name count for nothing and are
-- run again. May be called again: what old workers still offer under the former name is brought after. Locks states, then visits.
create or replace function mainspring.take_over_stage(kind text, former text, stage text) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
#variable_conflict use_column
declare
  p_kind text := kind;
  p_former text := former;
  p_stage text := stage;
  known boolean;
begin
  perform from mainspring.kind k where k.name = p_kind for no key update;
  known := exists (select from mainspring.stage s where s.kind = p_kind and s.name = p_former);
  if known then
    delete from mainspring.state o
    using mainspring.state n
    where o.kind = p_kind and o.stage = p_former
      and n.shard = o.shard and n.kind = o.kind and n.key = o.key and n.stage = p_stage;
    update mainspring.state s set stage = p_stage where s.kind = p_kind and s.stage = p_former;
    if exists (select from mainspring.stage s where s.kind = p_kind and s.name = p_stage) then
      delete from mainspring.stage s where s.kind = p_kind and s.name = p_former;
    else
      update mainspring.stage s set name = p_stage, retired_at = null where s.kind = p_kind and s.name = p_former;
    end if;
    update mainspring.kind k set generation = k.generation + 1, changed_at = now() where k.name = p_kind;
    insert into mainspring.consumer (kind, name, declared)
    select c.kind, p_stage, c.declared || jsonb_build_object('stage', p_stage)
    from mainspring.consumer c
    where c.kind = p_kind and c.name = p_former and c.declared ->> 'stage' = p_former
    on conflict do nothing;
    update mainspring.delivery d set consumer = p_stage where d.kind = p_kind and d.consumer = p_former
      and exists (select from mainspring.consumer c
        where c.kind = p_kind and c.name = p_former and c.declared ->> 'stage' = p_former);
    delete from mainspring.consumer c
    where c.kind = p_kind and c.name = p_former and c.declared ->> 'stage' = p_former;
  end if;
  perform mainspring.move_visits(
    array[p_kind || '/' || p_former, p_kind || '/' || p_former || '~', p_kind || '!' || p_former],
    array[p_kind || '/' || p_stage, p_kind || '/' || p_stage || '~', p_kind || '!' || p_stage]);
  return known;
end
$$;
