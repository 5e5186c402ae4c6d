-- Instants as microseconds since 1970 UTC, and back; exact.
create or replace function mainspring.micros(at timestamptz) returns bigint
  language sql immutable strict parallel safe
  return (extract(epoch from at at time zone 'UTC') * 1000000)::bigint;

create or replace function mainspring.instant(micros bigint) returns timestamptz
  language sql immutable strict parallel safe
  return timestamptz '1970-01-01 00:00:00+00' + make_interval(secs => micros / 1000000)
    + (micros % 1000000) * interval '1 microsecond';

-- A value as people write it.
create or replace function mainspring.shown(kind text, num bigint, ver text) returns text
  language sql stable parallel safe
  return case kind when 'instant' then to_char(mainspring.instant(num) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
    when 'integer' then num::text else ver end;

-- Offer the change of params: a visit each, due now. Called with a search path that has pg_catalog first.
create or replace function mainspring.offer_changes(names text[]) returns void
  language plpgsql volatile
  as $$
begin
  perform mainspring.offer_once('mainspring.change', names, 9);
end
$$;

-- Arguments that must not be cast in silence: the session's time zone would decide what they mean.
create or replace function mainspring.refuse_zoneless(param text, type text) returns void
  language plpgsql as $$
begin
  raise exception 'param % was given a %, which has no time zone', quote_literal(param), type
    using errcode = 'invalid_parameter_value',
    hint = 'say which moment is meant: value at time zone ''Europe/Berlin'', or a timestamptz such as now()';
end
$$;
create or replace function mainspring.refuse_numeric(param text, value numeric) returns void
  language plpgsql as $$
begin
  raise exception 'param % was given the number %, which is not a whole number of type bigint', quote_literal(param), value
    using errcode = 'invalid_parameter_value', hint = 'cast it: value::bigint';
end
$$;
create or replace function mainspring.finite_micros(param text, value timestamptz) returns bigint
  language plpgsql immutable as $$
begin
  if value is null then
    raise exception 'param % was given null', quote_literal(param)
      using errcode = 'null_value_not_allowed', hint = 'a param that has a value keeps one';
  end if;
  if not isfinite(value) or value < '1970-01-01Z' or value >= '9000-01-01Z' then
    raise exception 'param % must be an instant from 1970 to 9000, got %', quote_literal(param), value
      using errcode = 'datetime_field_overflow', hint = 'a value that cannot be would stop every check that reads it';
  end if;
  return mainspring.micros(value);
end
$$;
create or replace function mainspring.parse_value(param text, kind text, value text) returns text
  language plpgsql stable as $$
begin
  if value is null then
    raise exception 'param % was given null', quote_literal(param)
      using errcode = 'null_value_not_allowed', hint = 'a param that has a value keeps one';
  end if;
  case kind
    when 'version' then return value;
    when 'integer' then return value::bigint::text;
    else
      if value !~ '(Z|z|[+-][0-9]{2}(:?[0-9]{2})?)\s*$' or value !~ '[0-9]:[0-9]' then
        raise exception 'param % was given the instant %, which has no offset', quote_literal(param), quote_literal(value)
          using errcode = 'invalid_parameter_value', hint = 'write 2026-03-10T01:00:00Z or ...+03:00';
      end if;
      return mainspring.finite_micros(param, value::timestamptz)::text;
  end case;
end
$$;

-- Set params, all or none, in the caller's transaction: lock their rows by name, compare, write, log, offer the changes.
-- Each row is looked up once: what is locked cannot move, so it is written by its address.
-- Answers one row a param: 'set', 'same' (nothing happens), 'lower' (with only_greater: nothing happens to it), or why nothing
-- at all was written: 'unknown', 'kind' (given another kind, which is answered), 'range' or 'lower'. Nothing is raised, so
-- the caller's transaction is not spoilt. Rows stay locked until the transaction ends: advance last.
-- A value travels as text: microseconds, an integer, or the version itself. Names must differ.
create or replace function mainspring.advance_params(
  names text[], kinds text[], given text[], only_greater boolean, changed_by text default null, why text default null
) returns table (name text, answer text, kind text, old text, value text, ahead boolean)
  language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
#variable_conflict use_column
declare
  looked jsonb;
  moment timestamptz;
begin
  select jsonb_agg(to_jsonb(c) order by c.name) into looked from (
    select i.name, p.address, p.kind, coalesce(p.num::text, p.ver) as old, i.given as value,
      case
        when p.name is null then 'unknown'
        when i.kind <> p.kind then 'kind'
        when p.kind = 'version' then case when p.ver = i.given then 'same' else 'set' end
        when p.kind = 'instant' and i.given::bigint not between 0 and 221845391999999999 then 'range'
        when p.num is null or i.given::bigint > p.num then 'set'
        when i.given::bigint = p.num then 'same'
        else 'lower'
      end as answer,
      case when p.kind = 'instant' and i.kind = 'instant' then i.given::bigint > mainspring.micros(mainspring.clock() + p.warn_ahead)
        else false end as ahead
    from unnest(names, kinds, given) as i(name, kind, given)
    left join (
      select p.ctid as address, p.name, p.kind, p.num, p.ver, p.warn_ahead
      from unnest(names) as n(name)
      join mainspring.param p on p.name = n.name
      order by p.name
      for no key update of p
    ) p on p.name = i.name
  ) c;
  moment := mainspring.clock();
  if not exists (
    select from jsonb_to_recordset(looked) as c(answer text)
    where c.answer in ('unknown', 'kind', 'range') or (c.answer = 'lower' and not only_greater)
  ) then
    with fresh as (
      select c.name, c.address, c.ahead,
        case when c.kind <> 'version' then c.value::bigint end as num, case when c.kind = 'version' then c.value end as ver,
        case when c.kind <> 'version' then c.old::bigint end as old_num, case when c.kind = 'version' then c.old end as old_ver
      from jsonb_to_recordset(looked)
        as c(name text, address tid, answer text, kind text, old text, value text, ahead boolean)
      where c.answer = 'set'
    ),
    logged as (
      insert into mainspring.param_log (param, num, ver, old_num, old_ver, changed_by, why, at)
      select f.name, f.num, f.ver, f.old_num, f.old_ver, advance_params.changed_by, advance_params.why, moment
      from fresh f
      order by f.name
    )
    update mainspring.param p
    set num = f.num, ver = f.ver, changed_at = moment, changed_by = advance_params.changed_by, why = advance_params.why,
      ahead = f.ahead, revision = p.revision + 1
    from fresh f
    where p.ctid = f.address;
    perform mainspring.offer_changes(array(
      select c.name from jsonb_to_recordset(looked) as c(name text, answer text) where c.answer = 'set'));
  end if;
  return query select c.name, c.answer, c.kind, c.old, c.value, c.ahead
    from jsonb_to_recordset(looked) as c(name text, answer text, kind text, old text, value text, ahead boolean);
end
$$;

-- Move a param back, in the caller's transaction. Answers 'set', or why nothing was written: 'unknown', 'kind', 'range',
-- 'higher' (use advance), 'same' (allowed only with chunks), 'empty' (it has no value yet).
create or replace function mainspring.rewind_param(
  name text, kind text, given text, chunks bigint[] default '{}', changed_by text default null, why text default null
) returns table (answer text, known_kind text, old text)
  language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
#variable_conflict use_column
declare
  known mainspring.param;
  moment timestamptz;
  found_answer text;
begin
  select * into known from mainspring.param p where p.name = rewind_param.name for no key update;
  moment := mainspring.clock();
  found_answer := case
    when known.name is null then 'unknown'
    when known.kind <> rewind_param.kind then 'kind'
    when known.num is null and known.ver is null then 'empty'
    when known.kind = 'version' then 'set'
    when known.kind = 'instant' and given::bigint not between 0 and 221845391999999999 then 'range'
    when given::bigint > known.num then 'higher'
    when given::bigint = known.num and cardinality(chunks) = 0 then 'same'
    else 'set'
  end;
  if found_answer = 'set' then
    update mainspring.param p
    set num = case when known.kind <> 'version' then given::bigint end, ver = case when known.kind = 'version' then given end,
      rewinds = p.rewinds + 1, revision = p.revision + 1, changed_at = moment, changed_by = rewind_param.changed_by, why = rewind_param.why,
      ahead = known.kind = 'instant' and given::bigint > mainspring.micros(moment + known.warn_ahead)
    where p.name = known.name;
    insert into mainspring.param_rewind (param, number, num, ver, old_num, old_ver, chunks, changed_by, why, at)
    select p.name, p.rewinds, p.num, p.ver, known.num, known.ver, rewind_param.chunks, p.changed_by, p.why, moment
    from mainspring.param p where p.name = known.name;
    insert into mainspring.param_log (param, num, ver, old_num, old_ver, is_rewind, changed_by, why, at)
    select p.name, p.num, p.ver, known.num, known.ver, true, p.changed_by, p.why, moment
    from mainspring.param p where p.name = known.name;
    perform mainspring.offer_changes(array[known.name]);
  end if;
  return query select found_answer, known.kind, coalesce(known.num::text, known.ver);
end
$$;

-- What the plain functions below raise; answers whether anything was set.
create or replace function mainspring.check_answer(name text, answer text, kind text, old text, value text, wanted text)
  returns boolean
  language plpgsql stable
  set search_path = pg_catalog, pg_temp
  as $$
#variable_conflict use_variable
declare
  near text;
begin
  case answer
    when 'set' then return true;
    when 'unknown' then
      select p.name into near from mainspring.param p
        cross join lateral (select count(*) as length from generate_series(1, least(length(p.name), length(check_answer.name))) n
          where left(p.name, n) = left(check_answer.name, n)) alike
        where alike.length >= greatest(3, length(check_answer.name) / 2)
        order by alike.length desc, abs(length(p.name) - length(check_answer.name)), p.name limit 1;
      raise exception 'unknown param %', quote_literal(name) using errcode = 'undefined_object',
        hint = 'params are registered by a worker or by "mainspring params create"'
          || coalesce('; did you mean ' || quote_literal(near) || '?', '');
    when 'kind' then
      raise exception 'param % is of kind %, got a value of kind %', quote_literal(name), kind, wanted
        using errcode = 'invalid_parameter_value', hint = 'set it by a value of its own kind';
    when 'range' then
      raise exception 'param % must be an instant from 1970 to 9000, got %', quote_literal(name), value || ' microseconds'
        using errcode = 'datetime_field_overflow', hint = 'is it in the right unit?';
    when 'lower' then
      raise exception 'param % would go back from % to %', quote_literal(name),
        case kind when 'instant' then mainspring.shown(kind, old::bigint, null) else old end,
        case kind when 'instant' then mainspring.shown(kind, value::bigint, null) else value end
        using errcode = 'invalid_parameter_value',
        hint = 'moving back is said explicitly: select mainspring.rewind(name, value, why => ...)';
    when 'higher' then
      raise exception 'param % would not go back: it is %', quote_literal(name),
        case kind when 'instant' then mainspring.shown(kind, old::bigint, null) else old end
        using errcode = 'invalid_parameter_value', hint = 'moving forward is mainspring.advance(name, value)';
    when 'empty' then
      raise exception 'param % has no value yet to move back from', quote_literal(name)
        using errcode = 'invalid_parameter_value', hint = 'set it by mainspring.advance(name, value)';
    else return false;
  end case;
end
$$;

-- Advance a param from plain SQL, in the caller's transaction: select mainspring.advance('dwh.orders.loaded_to', now()).
-- Answers whether it was set (an equal value: no). A lower value is refused with the hint to rewind.
create or replace function mainspring.advance(param text, value timestamptz, why text default null) returns boolean
  language sql volatile security definer set search_path = pg_catalog, pg_temp
  as $$
    select mainspring.check_answer(a.name, a.answer, a.kind, a.old, a.value, 'instant')
    from mainspring.advance_params(array[param], array['instant'], array[mainspring.finite_micros(param, value)::text], false,
      session_user, why) a
  $$;
create or replace function mainspring.advance(param text, value bigint, why text default null) returns boolean
  language sql volatile security definer set search_path = pg_catalog, pg_temp
  as $$
    select mainspring.check_answer(a.name, a.answer, a.kind, a.old, a.value, 'integer')
    from mainspring.advance_params(array[param], array['integer'], array[value::text], false, session_user, why) a
  $$;
create or replace function mainspring.advance(param text, value integer, why text default null) returns boolean
  language sql volatile security definer set search_path = pg_catalog, pg_temp
  as 'select mainspring.advance(param, value::bigint, why)';
-- Text (and a quoted literal) is read by the param's kind; an instant must say its offset.
create or replace function mainspring.advance(param text, value text, why text default null) returns boolean
  language sql volatile security definer set search_path = pg_catalog, pg_temp
  as $$
    select mainspring.check_answer(a.name, a.answer, a.kind, a.old, a.value, k.kind)
    from (select coalesce((select p.kind from mainspring.param p where p.name = param), 'version') as kind) k
    cross join lateral mainspring.advance_params(array[param], array[k.kind],
      array[mainspring.parse_value(param, k.kind, value)], false, session_user, why) a
  $$;
create or replace function mainspring.advance(param text, value timestamp, why text default null) returns boolean
  language plpgsql set search_path = pg_catalog, pg_temp as $$ begin perform mainspring.refuse_zoneless(param, 'timestamp'); return false; end $$;
create or replace function mainspring.advance(param text, value date, why text default null) returns boolean
  language plpgsql set search_path = pg_catalog, pg_temp as $$ begin perform mainspring.refuse_zoneless(param, 'date'); return false; end $$;
create or replace function mainspring.advance(param text, value numeric, why text default null) returns boolean
  language plpgsql set search_path = pg_catalog, pg_temp as $$ begin perform mainspring.refuse_numeric(param, value); return false; end $$;

-- Move a param back from plain SQL; why is kept with it.
create or replace function mainspring.rewind(param text, value timestamptz, why text default null) returns boolean
  language sql volatile security definer set search_path = pg_catalog, pg_temp
  as $$
    select mainspring.check_answer(param, a.answer, a.known_kind, a.old, mainspring.micros(value)::text, 'instant')
    from mainspring.rewind_param(param, 'instant', mainspring.finite_micros(param, value)::text, '{}', session_user, why) a
  $$;
create or replace function mainspring.rewind(param text, value bigint, why text default null) returns boolean
  language sql volatile security definer set search_path = pg_catalog, pg_temp
  as $$
    select mainspring.check_answer(param, a.answer, a.known_kind, a.old, value::text, 'integer')
    from mainspring.rewind_param(param, 'integer', value::text, '{}', session_user, why) a
  $$;
create or replace function mainspring.rewind(param text, value integer, why text default null) returns boolean
  language sql volatile security definer set search_path = pg_catalog, pg_temp
  as 'select mainspring.rewind(param, value::bigint, why)';
create or replace function mainspring.rewind(param text, value text, why text default null) returns boolean
  language sql volatile security definer set search_path = pg_catalog, pg_temp
  as $$
    select mainspring.check_answer(param, a.answer, a.known_kind, a.old, value, k.kind)
    from (select coalesce((select p.kind from mainspring.param p where p.name = param), 'version') as kind) k
    cross join lateral mainspring.rewind_param(param, k.kind, mainspring.parse_value(param, k.kind, value), '{}',
      session_user, why) a
  $$;
create or replace function mainspring.rewind(param text, value timestamp, why text default null) returns boolean
  language plpgsql set search_path = pg_catalog, pg_temp as $$ begin perform mainspring.refuse_zoneless(param, 'timestamp'); return false; end $$;
create or replace function mainspring.rewind(param text, value date, why text default null) returns boolean
  language plpgsql set search_path = pg_catalog, pg_temp as $$ begin perform mainspring.refuse_zoneless(param, 'date'); return false; end $$;
