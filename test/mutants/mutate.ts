/**
 * Finds possible mistakes in a source, one small change at a time, and writes all of them into it at once: each is
 * behind a switch, `MUTANT(id)`, so that one build serves all runs.
 */
import ts from 'typescript'

/** The function that says whether a mutant is switched on. */
export const SWITCH = '__mutant'

export interface Mutant {
  readonly id: number
  /** Path in the repository. */
  readonly file: string
  /** From 1. */
  readonly line: number
  /** The line's text, without the space around it. */
  readonly code: string
  readonly original: string
  readonly replacement: string
}

/** Puts `text` in place of what is from `start` to `end`. */
interface Alternative {
  readonly start: number
  readonly end: number
  readonly text: string
}

const { SyntaxKind } = ts

/** Both sides are taken for numbers. */
const OPERATORS = new Map<ts.SyntaxKind, readonly string[]>([
  [SyntaxKind.LessThanToken, ['<=']],
  [SyntaxKind.LessThanEqualsToken, ['<']],
  [SyntaxKind.GreaterThanToken, ['>=']],
  [SyntaxKind.GreaterThanEqualsToken, ['>']],
  [SyntaxKind.PlusToken, ['-']],
  [SyntaxKind.MinusToken, ['+']],
  [SyntaxKind.AsteriskToken, ['/']],
  [SyntaxKind.SlashToken, ['*']],
  [SyntaxKind.PercentToken, ['*']],
  [SyntaxKind.AmpersandToken, ['|']],
  [SyntaxKind.BarToken, ['&']],
  [SyntaxKind.AmpersandAmpersandToken, ['||']],
  [SyntaxKind.BarBarToken, ['&&']],
  [SyntaxKind.PlusEqualsToken, ['-=']],
  [SyntaxKind.MinusEqualsToken, ['+=']],
  [SyntaxKind.QuestionQuestionEqualsToken, ['=']],
])
const COMPARISONS = new Set<ts.SyntaxKind>([
  SyntaxKind.LessThanToken,
  SyntaxKind.LessThanEqualsToken,
  SyntaxKind.GreaterThanToken,
  SyntaxKind.GreaterThanEqualsToken,
  SyntaxKind.EqualsEqualsEqualsToken,
  SyntaxKind.ExclamationEqualsEqualsToken,
])
/** By method, the one that is called in its place. */
const INSTEAD = new Map([
  ['startsWith', 'endsWith'],
  ['endsWith', 'startsWith'],
  ['some', 'every'],
  ['every', 'some'],
  ['min', 'max'],
  ['max', 'min'],
  ['indexOf', 'lastIndexOf'],
  ['lastIndexOf', 'indexOf'],
  ['floor', 'ceil'],
  ['ceil', 'floor'],
])
/** Methods whose receiver could stand in place of their result. */
const LEFT_OUT = new Set([
  'trim',
  'trimEnd',
  'trimStart',
  'toLowerCase',
  'toUpperCase',
  'sort',
  'toSorted',
  'reverse',
  'toReversed',
  'filter',
  'slice',
  'catch',
])

/**
 * The source with its mutants in it, and their list.
 * @param firstId Mutants are numbered from here on.
 */
export function mutate(file: string, text: string, firstId: number): { code: string; mutants: readonly Mutant[] } {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.ES2023, true)
  const alternatives = new Map<ts.Node, Alternative[]>()
  const add = (holder: ts.Node, alternative: Alternative) => {
    const before = alternatives.get(holder) ?? []
    alternatives.set(holder, [...before, alternative])
  }
  const visit = (node: ts.Node) => {
    if (isLeftOut(node)) return
    findAt(node, add)
    ts.forEachChild(node, visit)
  }
  visit(source)

  const mutants: Mutant[] = []
  const write = (node: ts.Node): string => {
    const start = node.getStart()
    const whole = text.slice(start, node.end)
    let inner = ''
    let at = start
    ts.forEachChild(node, child => {
      if (isLeftOut(child)) return
      inner += text.slice(at, child.getStart()) + write(child)
      at = child.end
    })
    inner += text.slice(at, node.end)

    const found = (alternatives.get(node) ?? []).map(alternative => {
      const id = firstId + mutants.length
      const { line } = source.getLineAndCharacterOfPosition(alternative.start)
      const lineStart = source.getPositionOfLineAndCharacter(line, 0)
      const code = (text.slice(lineStart).split('\n', 1)[0] ?? '').trim()
      const original = text.slice(alternative.start, alternative.end)
      mutants.push({ id, file, line: line + 1, code, original, replacement: alternative.text })
      const mutated =
        whole.slice(0, alternative.start - start) + alternative.text + whole.slice(alternative.end - start)
      return { id, mutated }
    })
    const isOn = `${found.map(({ id }) => `${SWITCH}(${id})`).join('||')}`
    if (ts.isBlock(node)) return found.length > 0 ? `{if(!(${isOn}))${inner}}` : inner
    if (ts.isExpressionStatement(node)) return found.length > 0 ? `{if(!(${isOn})){${inner}}}` : `{${inner}}`
    if (found.length === 0) return inner
    return `(${found.map(({ id, mutated }) => `${SWITCH}(${id})?(${mutated}):`).join('')}(${inner}))`
  }
  return { code: write(source), mutants: mutants.sort((a, b) => a.line - b.line || a.id - b.id) }
}

/** Not run, or impossible to switch. */
function isLeftOut(node: ts.Node): boolean {
  return (
    ts.isTypeNode(node) ||
    ts.isInterfaceDeclaration(node) ||
    ts.isTypeAliasDeclaration(node) ||
    ts.isImportDeclaration(node) ||
    ts.isExportDeclaration(node) ||
    ts.isHeritageClause(node) ||
    ts.isTypeParameterDeclaration(node)
  )
}

type Add = (holder: ts.Node, alternative: Alternative) => void

function findAt(node: ts.Node, add: Add): void {
  const replace = (text: string, part: ts.Node = node) => add(holderOf(node), { ...span(part), text })

  if (ts.isBlock(node) && isRemovable(node)) add(node, { ...span(node), text: '{}' })
  if (ts.isExpressionStatement(node) && !isOnlyOne(node) && !isSuperCall(node)) add(node, { ...span(node), text: '' })
  if (!ts.isExpression(node) || !canBeReplaced(node)) return

  const isTest = isTested(node)
  if (isTest && !isBoolean(node) && !ts.isParenthesizedExpression(node)) {
    const side = operandOf(node)
    if (side !== SyntaxKind.BarBarToken && !isLoop(node.parent)) replace('true')
    if (side !== SyntaxKind.AmpersandAmpersandToken) replace('false')
  } else if (ts.isBinaryExpression(node) && COMPARISONS.has(node.operatorToken.kind)) {
    replace('true')
    replace('false')
  }

  if (ts.isBinaryExpression(node)) {
    const { operatorToken, left, right } = node
    if (operatorToken.kind === SyntaxKind.QuestionQuestionToken) {
      replace(left.getText())
      replace(right.getText())
    } else if (!isText(left) && !isText(right))
      for (const operator of OPERATORS.get(operatorToken.kind) ?? []) replace(operator, operatorToken)
  } else if (ts.isPrefixUnaryExpression(node)) {
    const { operator, operand } = node
    if (operator === SyntaxKind.PlusPlusToken) replace(`--${operand.getText()}`)
    else if (operator === SyntaxKind.MinusMinusToken) replace(`++${operand.getText()}`)
    else if (operator === SyntaxKind.MinusToken || operator === SyntaxKind.TildeToken) replace(operand.getText())
    else if (operator === SyntaxKind.ExclamationToken && !isTest) replace(operand.getText())
  } else if (ts.isPostfixUnaryExpression(node)) {
    const operator = node.operator === SyntaxKind.PlusPlusToken ? '--' : '++'
    replace(node.operand.getText() + operator)
  } else if (ts.isStringLiteral(node) || ts.isNoSubstitutionTemplateLiteral(node)) {
    if (!isCompared(node)) replace(node.text === '' ? "'mutant'" : "''")
    if (isPattern(node)) addPattern(node, add)
  } else if (ts.isTemplateExpression(node)) {
    replace("''")
    if (isPattern(node)) addPattern(node, add)
  } else if (ts.isRegularExpressionLiteral(node)) addPattern(node, add)
  else if (isBoolean(node)) replace(node.kind === SyntaxKind.TrueKeyword ? 'false' : 'true')
  else if (ts.isArrayLiteralExpression(node)) replace(node.elements.length === 0 ? "['mutant']" : '[]')
  else if (ts.isObjectLiteralExpression(node) && node.properties.length > 0) replace('{}')
  else if (ts.isCallExpression(node) && ts.isPropertyAccessExpression(node.expression)) {
    const { name, expression } = node.expression
    const instead = INSTEAD.get(name.text)
    if (instead) replace(instead, name)
    if (LEFT_OUT.has(name.text)) replace(expression.getText())
  }
  if (isAccess(node) && node.questionDotToken)
    replace(ts.isPropertyAccessExpression(node) ? '.' : '', node.questionDotToken)
  if (ts.isArrowFunction(node.parent) && node.parent.body === node && node.getText() !== 'undefined')
    replace('undefined')
}

function span(node: ts.Node): { readonly start: number; readonly end: number } {
  return { start: node.getStart(), end: node.end }
}

/**
 * The node that a mutant of `node` replaces as a whole: a part of `a?.b.c` cannot be switched on its own, and a method's
 * receiver must stay beside its name.
 */
function holderOf(node: ts.Node): ts.Node {
  let holder = node
  for (;;) {
    const { parent } = holder
    if (!isAccess(parent) || parent.expression !== holder) return holder
    const isMethod = ts.isCallExpression(parent) && isAccess(holder)
    if (!isMethod && !ts.isOptionalChain(parent)) return holder
    holder = parent
  }
}

function isAccess(node: ts.Node): node is ts.PropertyAccessExpression | ts.ElementAccessExpression | ts.CallExpression {
  return ts.isPropertyAccessExpression(node) || ts.isElementAccessExpression(node) || ts.isCallExpression(node)
}

/** Whether an expression may stand in parentheses, with another one before it. */
function canBeReplaced(node: ts.Expression): boolean {
  const { parent } = node
  if (ts.isBinaryExpression(parent) && parent.left === node && isAssignment(parent)) return false
  if (ts.isPropertyAssignment(parent) && parent.name === node) return false
  if ((ts.isPropertyAccessExpression(parent) && parent.name === node) || ts.isComputedPropertyName(parent)) return false
  if (ts.isTaggedTemplateExpression(parent) || ts.isDeleteExpression(parent)) return false
  if ((ts.isForOfStatement(parent) || ts.isForInStatement(parent)) && parent.initializer === node) return false
  if (isName(node)) return isTested(node) || ts.isArrowFunction(parent)
  return true
}

function isName(node: ts.Node): boolean {
  if (!ts.isIdentifier(node)) return false
  const { parent } = node
  return !('name' in parent && parent.name === node)
}

function isAssignment(node: ts.BinaryExpression): boolean {
  const { kind } = node.operatorToken
  return kind >= SyntaxKind.FirstAssignment && kind <= SyntaxKind.LastAssignment
}

/** Whether a statement, a conditional expression, or an operator of these, asks whether it is true. */
function isTested(node: ts.Node): boolean {
  const { parent } = node
  if (ts.isIfStatement(parent) || isWhile(parent)) return parent.expression === node
  if (ts.isForStatement(parent) || ts.isConditionalExpression(parent)) return parent.condition === node
  if (ts.isPrefixUnaryExpression(parent)) return false
  if (ts.isParenthesizedExpression(parent)) return isTested(parent)
  return operandOf(node) !== undefined && isTested(parent)
}

function isLoop(node: ts.Node): boolean {
  return isWhile(node) || ts.isForStatement(node)
}

function isWhile(node: ts.Node): node is ts.WhileStatement | ts.DoStatement {
  return ts.isWhileStatement(node) || ts.isDoStatement(node)
}

/** The logical operator that a node is an operand of. */
function operandOf(node: ts.Node): ts.SyntaxKind | undefined {
  if (!ts.isBinaryExpression(node.parent)) return undefined
  const { kind } = node.parent.operatorToken
  return kind === SyntaxKind.AmpersandAmpersandToken || kind === SyntaxKind.BarBarToken ? kind : undefined
}

function isBoolean(node: ts.Node): boolean {
  return node.kind === SyntaxKind.TrueKeyword || node.kind === SyntaxKind.FalseKeyword
}

function isText(node: ts.Node): boolean {
  return ts.isStringLiteral(node) || ts.isTemplateExpression(node) || ts.isNoSubstitutionTemplateLiteral(node)
}

/** A compared literal: a value differs from it as from another text, so the comparison is mutated instead. */
function isCompared(node: ts.Node): boolean {
  return ts.isBinaryExpression(node.parent) && COMPARISONS.has(node.parent.operatorToken.kind)
}

function isPattern(node: ts.Node): boolean {
  return ts.isNewExpression(node.parent) && node.parent.expression.getText() === 'RegExp'
}

/** A regular expression without its anchors, one by one. @param node Its literal, or the text that it is made of. */
function addPattern(node: ts.Expression, add: Add): void {
  const text = node.getText()
  const start = node.getStart()
  const flags = ts.isRegularExpressionLiteral(node) ? text.length - text.lastIndexOf('/') : 1
  if (text[1] === '^') add(node, { start: start + 1, end: start + 2, text: '' })
  const last = node.end - flags
  if (text[last - 1 - start] === '$') add(node, { start: last - 1, end: last, text: '' })
  for (const { index, 0: quantifier } of text.matchAll(/(?<=[\]).*])[+*]|(?<=\\[dsw])\+/g)) {
    const at = start + index
    add(node, { start: at, end: at + 1, text: quantifier === '+' ? '*' : '+' })
  }
}

/** To remove the only branch of an `if` is to make its condition false. */
function isRemovable(node: ts.Block): boolean {
  const { parent } = node
  if (node.statements.length === 0) return false
  if (ts.isIfStatement(parent)) return parent.elseStatement !== undefined
  if (isWhile(parent) || ts.isForStatement(parent)) return false
  return !node.statements.some(isSuperCall)
}

/** Whether a statement is all there is in a block that is itself removed, or in a branch. */
function isOnlyOne(node: ts.ExpressionStatement): boolean {
  const { parent } = node
  if (ts.isIfStatement(parent)) return parent.elseStatement === undefined
  if (!ts.isBlock(parent) || parent.statements.length > 1) return false
  return isRemovable(parent) || ts.isIfStatement(parent.parent)
}

function isSuperCall(node: ts.Node): boolean {
  return (
    ts.isExpressionStatement(node) &&
    ts.isCallExpression(node.expression) &&
    node.expression.expression.kind === SyntaxKind.SuperKeyword
  )
}
